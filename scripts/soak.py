"""Many suites and sweeps on one results folder, whose processes are killed at random.

Usage::

    python scripts/soak.py [--minutes 10] [--seed 0]

Callers are ``cfq-bench suite`` and ``cfq-bench sweep`` as they are, several at once, with runs that
take a fraction of a second in place of trainings. A round kills their workers and the callers
themselves, by SIGKILL and SIGINT, and calls again; then it lets everything end and looks at what
is there: no run lost, none published twice, no lease, claim or temporary file left, no process
that outlived its parent by more than `ORPHAN_S`. Exit code 1 where something of that is not so.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import click
import yaml

from cfq_bench.config.suite import expand, load_suite
from cfq_bench.record.store import RecordStore

ROOT = Path(__file__).parents[1]
TOKEN = "CFQ_BENCH_SOAK"
KILLING_S = 25.0
"""Seconds of a round in which processes are killed."""
ENDING_S = 240.0
"""Seconds in which all that is left must be done; the lock of a killed journal takes 30."""
ORPHAN_S = 5.0
SLACK_S = 3.0  # a look takes time, too, where eighteen processes share two cores
SEEDS = 25
ROWS = ("lsq", "ptq", "kd_qat")
MEANS = ("kill a worker", "interrupt a worker", "kill a caller", "interrupt a caller")

FAKE_EXPERIMENT = """
import hashlib, os, random, sys, time, types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Options:
    results_dir: Path = Path("results")
    cache_dir: Any = None
    data_dir: Any = None
    wandb: str = "auto"
    force: bool = False
    device: str = "cpu"
    threads: int = 1
    progress: Any = None
    publish: Any = None
    group: Any = None
    callbacks: Any = ()


def answer(settings, options):
    from cfq_bench.files import ensure_writable, run_id
    from cfq_bench.record.record import Record
    from cfq_bench.record.store import RecordStore

    config, store = settings.model_dump(mode="json"), RecordStore(options.results_dir)
    ensure_writable(store.runs_dir, "records")
    if random.random() < 0.05:  # a call that hears nothing
        hashlib.pbkdf2_hmac("sha256", b"", b"", 20_000_000)
    time.sleep(random.uniform(0.0, 0.3))
    error = 0.01 * settings.seed + (config["method"].get("eta", 1.0) - 1.0) ** 2
    metrics = {
        "recourse/boundary_error": error, "recourse/vd": error, "recourse/vd_adverse": error,
        "recourse/crg": 0.0, "recourse/crg_abs": 0.0, "recourse/lost": 0.0, "task/acc": 0.75,
        "task/favourable_drift": 0.0, "deploy/avg_bits": config["budget"]["avg_bits"],
    }
    record = Record(
        run_id=run_id(config), status="ok", config=config, metrics=metrics, counts={},
        details={"data": {"sha256": "soak"}}, provenance={}, seconds=0.1,
    )
    (options.publish or store.write)(record, None, os.urandom(200_000), None)
    with (options.results_dir / "published").open("a") as file:
        file.write(record.run_id + "\\n")
    return types.SimpleNamespace(record=record)


def run(settings, options):
    return answer(settings, options).record


module = types.ModuleType("cfq_bench.experiment")
module.Options, module.answer, module.run = Options, answer, run
sys.modules["cfq_bench.experiment"] = module
"""
"""What interpreters of the soak find in place of `cfq_bench.experiment`, before anything else."""


def alive() -> dict[int, int]:
    """Processes of the soak but this one, with their parents."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if TOKEN.encode() in (path / "environ").read_bytes():
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z":
                    found[int(path.name)] = int(fields[1])
        except OSError:
            continue  # it has ended meanwhile
    return found


@dataclass
class Round:
    """One results folder, from nothing to the look at what is there."""

    folder: Path
    chance: random.Random
    callers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    orphans: list[tuple[float, set[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.results = self.folder / "results"
        (self.folder / "path").mkdir(parents=True)
        (self.folder / "tmp").mkdir()
        (self.folder / "path" / "sitecustomize.py").write_text(FAKE_EXPERIMENT)
        self.write(
            "suite",
            axes={"data": ["german"], "seed": list(range(SEEDS))},
            rows=[{"label": method.upper(), "method": method} for method in ROWS],
        )
        shared = {"method": "cfq", "data": "german", "seeds": [0, 1, 2]}
        self.write("grid", **shared, space={"method.eta": [0.5, 1.0, 1.5, 2.0]})
        space = {"method.eta": {"low": 0.1, "high": 4.0}}
        self.write("search", **shared, sampler="tpe", trials=15, startup_trials=5, space=space)

    def write(self, name: str, **content: object) -> None:
        """A suite's or a sweep's file."""
        text = yaml.safe_dump({"about": "soak", **content})
        (self.folder / f"{name}.yaml").write_text(text)

    def command(self, caller: str) -> list[str]:
        """The command of a caller; its name begins with what it calls."""
        kind = caller.split("-")[0]
        file, where = str(self.folder / f"{kind}.yaml"), ["--results-dir", str(self.results)]
        call = [sys.executable, "-m", "cfq_bench"]
        if kind == "suite":
            return [*call, "suite", file, "--workers", "2", "--wandb", "disabled", *where]
        return [*call, "sweep", file, "--workers", "2", "--tracking", "disabled", "-q", *where]

    def call(self, caller: str, *more: str) -> None:
        """Start a caller, as a user would."""
        path = os.pathsep.join((str(self.folder / "path"), str(ROOT)))
        environment = {**os.environ, TOKEN: "1", "PYTHONPATH": path}
        environment["TMPDIR"] = str(self.folder / "tmp")
        with (self.folder / f"{caller}.log").open("ab") as log:
            self.callers[caller] = subprocess.Popen(
                [*self.command(caller), *more],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def disturb(self) -> None:
        """Call, kill, and call again, until the time is over."""
        names = ("suite-1", "suite-2", "grid-1", "grid-2", "search-1", "search-2")
        end = time.monotonic() + KILLING_S
        while time.monotonic() < end:
            for name in names:
                if name not in self.callers or self.callers[name].poll() is not None:
                    self.call(name)
            time.sleep(self.chance.uniform(0.1, 0.8))
            self.kill_one()
            self.look_for_orphans()
        for name in names:
            if self.callers[name].poll() is not None:
                self.call(name)

    def kill_one(self) -> None:
        """Kill or interrupt one process that is chosen at random."""
        what = self.chance.choice(MEANS)
        callers = {p.pid for p in self.callers.values() if p.poll() is None}
        processes = alive()
        workers = {pid for pid in processes if processes[pid] in callers}
        chosen = callers if "caller" in what else workers
        if not chosen:
            return
        pid = self.chance.choice(sorted(chosen))
        if "caller" in what:
            children = {child for child, parent in processes.items() if parent == pid}
            self.orphans.append((time.monotonic(), children))
        try:
            os.kill(pid, signal.SIGKILL if what.startswith("kill") else signal.SIGINT)
        except ProcessLookupError:
            return
        self.done[what] += 1

    def look_for_orphans(self) -> None:
        """Workers whose caller ended too long ago."""
        now, there = time.monotonic(), alive()
        for since, children in list(self.orphans):
            if now - since > ORPHAN_S + SLACK_S:
                self.orphans.remove((since, children))
                if left := [pid for pid in children if pid in there]:
                    told = f"{len(left)} of {len(children)} workers live"
                    self.faults.append(f"{told} {now - since:.1f} s after their caller")

    def settle(self) -> None:
        """Let all callers end, and call each kind once more."""
        self.wait(list(self.callers))
        for name, more in (("suite-1", ["--retry-failed"]), ("grid-1", []), ("search-1", [])):
            self.call(name, *more)
            self.wait([name])
            code = self.callers[name].returncode
            if code != 0:
                self.faults.append(f"{name} ended with {code}: {self.tail(name)}")

    def wait(self, names: list[str]) -> None:
        """Wait until callers have ended, and end those that do not."""
        end = time.monotonic() + ENDING_S
        for name in names:
            try:
                self.callers[name].wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.faults.append(
                    f"{name} is still at work after {ENDING_S:g} s: {self.tail(name)}"
                )
                self.callers[name].kill()
                self.callers[name].wait(ORPHAN_S)

    def tail(self, name: str) -> str:
        """The last lines that a caller printed."""
        lines = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()
        return " | ".join(lines[-3:])

    def check(self) -> None:
        """Compare what is there with what there should be."""
        time.sleep(ORPHAN_S)
        if left := alive():
            self.faults.append(f"{len(left)} processes are left: {sorted(left)}")
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        store = RecordStore(self.results)
        wanted = {run.run_id for run in expand(load_suite(str(self.folder / "suite.yaml")))}
        records = {record.run_id: record for record in store.all()}
        self.done["runs"] += len(records)
        if lost := wanted - set(records):
            self.faults.append(f"{len(lost)} runs of the suite are lost: {sorted(lost)[:3]}")
        if bad := [r.reason for r in records.values() if r.status != "ok"]:
            self.faults.append(f"{len(bad)} runs failed: {bad[0]}")
        told = Counter((self.results / "published").read_text().split())
        if twice := [name for name, count in told.items() if count > 1]:
            self.faults.append(f"published twice: {twice}")
        if orphaned := set(told) - set(records):
            self.faults.append(f"published and gone: {sorted(orphaned)}")
        names = {path.stem for path in store.runs_dir.iterdir() if path.suffix in (".json", ".pt")}
        kept = {"journal.log", "study.lock", "report.md"}
        left_files = [
            str(path.relative_to(self.folder))
            for path in (*self.results.rglob("*"), *(self.folder / "tmp").rglob("*"))
            if path.is_file()
            and path.name not in kept
            and path != self.results / "published"
            and not (path.parent == store.runs_dir and path.stem in names and path.name[0] != ".")
        ]
        if left_files:
            self.faults.append(f"{len(left_files)} files are left: {left_files[:5]}")
        for path in store.runs_dir.glob("*.json"):
            json.loads(path.read_bytes())


@click.command()
@click.option("--minutes", default=10.0, show_default=True, help="Rounds begin until then.")
@click.option("--seed", default=None, type=int, help="Of the kills.  [default: at random]")
def main(minutes: float, seed: int | None) -> None:
    """Kill suites and sweeps at random, and look at what they leave."""
    seed = random.randrange(10**6) if seed is None else seed
    chance, begin, count = random.Random(seed), time.monotonic(), 0
    done: Counter[str] = Counter()
    failed = False
    while time.monotonic() - begin < 60 * minutes:
        count += 1
        with tempfile.TemporaryDirectory(
            prefix="cfq-bench-soak-", ignore_cleanup_errors=True
        ) as at:
            one = Round(Path(at), chance)
            one.disturb()
            one.settle()
            one.check()
        done.update(one.done)
        told = ", ".join(f"{what}: {number}" for what, number in sorted(one.done.items()))
        click.echo(f"round {count} ({time.monotonic() - begin:.0f} s, seed {seed}): {told}")
        for fault in one.faults:
            failed = True
            click.echo(f"  fault: {fault}")
    total = ", ".join(f"{what}: {number}" for what, number in sorted(done.items()))
    click.echo(
        f"{count} rounds: {total}; {'with faults' if failed else 'nothing lost, nothing left'}"
    )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
