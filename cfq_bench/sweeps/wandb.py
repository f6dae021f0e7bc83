"""W&B sweeps: create one at the server, and start agents that call ``cfq-bench run``."""

import contextlib
import io
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from cfq_bench.config.yaml import read_yaml
from cfq_bench.errors import UserError
from cfq_bench.tracking.mode import base_url, resolve_mode

CREATE_TIMEOUT_S = 30.0
PROJECT = "cfq-bench"


def create_sweep(path: Path) -> str:
    """Create the sweep that a file describes, in little more than `CREATE_TIMEOUT_S` seconds.

    Args:
        path: a file as ``wandb sweep`` takes it.

    Returns:
        ``entity/project/id``, what ``wandb agent`` takes.

    Raises:
        UserError: no such sweep file, no key, no server, or it refuses.
    """
    config = _checked(path)
    mode, _ = resolve_mode("auto")
    if mode != "online":
        raise UserError(
            f"a W&B sweep lives at a server, and {base_url()} cannot be used: log in with "
            "`wandb login`, see that it answers, and that WANDB_MODE is not set"
        )
    answer: list[str] = []
    failure: list[Exception] = []

    def create() -> None:
        try:
            answer.append(_create(config))
        except Exception as error:  # wandb's internal errors share no base class
            failure.append(error)

    # A thread, because wandb's own retries have no end that one could set.
    thread = threading.Thread(target=create, daemon=True)
    thread.start()
    thread.join(CREATE_TIMEOUT_S)
    if answer:
        return answer[0]
    why = str(failure[0]).splitlines()[0] if failure else f"no answer in {CREATE_TIMEOUT_S:g} s"
    raise UserError(f"{base_url()} did not create the sweep: {why}")


def run_agents(sweep: str, count: int, directory: Path) -> bool:
    """Run agents until the sweep has nothing left to do.

    Args:
        sweep: from `create_sweep`.
        count: agents, each a process that does one run at a time.
        directory: agents leave their files in ``wandb/`` below it.

    Returns:
        Whether all of them ended well.
    """
    directory.mkdir(parents=True, exist_ok=True)
    beside = str(Path(sys.executable).parent)  # where this environment's cfq-bench is
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([beside, os.environ.get("PATH", "")]),
        "WANDB_DIR": str(directory.resolve()),
    }
    command = [sys.executable, "-m", "wandb", "agent", sweep]
    agents = [subprocess.Popen(command, env=environment) for _ in range(count)]
    try:
        codes = [agent.wait() for agent in agents]
        return not any(codes)
    finally:
        for agent in agents:
            if agent.poll() is None:
                agent.terminate()


def _checked(path: Path) -> dict[str, Any]:
    config = read_yaml(path)
    for key, kind in (("method", str), ("parameters", dict), ("command", list)):
        if not isinstance(config.get(key), kind):
            raise UserError(f"{path} is no W&B sweep, it has no good {key!r}: see sweeps/wandb/")
    command = [str(part) for part in config["command"]]
    if "${args_no_hyphens}" not in command:
        raise UserError(
            f"{path}: the command must end in ${{args_no_hyphens}}: the values go to "
            "`cfq-bench run` as KEY=VALUE"
        )
    return config


def _create(config: dict[str, Any]) -> str:
    import wandb
    from wandb.apis.public import Api

    wandb.setup(wandb.Settings(silent=True))
    with contextlib.redirect_stdout(io.StringIO()):  # it prints what we return
        identity = wandb.sweep(config, project=config.get("project", PROJECT))
    api = Api()
    entity = api.settings["entity"] or api.default_entity
    return f"{entity}/{config.get('project', PROJECT)}/{identity}"
