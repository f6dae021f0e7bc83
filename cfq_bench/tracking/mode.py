"""Decide, before a run starts, whether W&B is online, offline or off."""

import configparser
import netrc
import os
import ssl
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Literal, cast
from urllib.parse import urlsplit

Mode = Literal["auto", "online", "offline", "disabled"]
EffectiveMode = Literal["online", "offline", "disabled"]

PROBE_TIMEOUT_S = 3.0
UNKNOWN_DIRECTORY = "<dir>"  # stands in a note until the run has a directory
_WANDB_MODES: dict[str, EffectiveMode] = {
    "disabled": "disabled",
    "offline": "offline",
    "dryrun": "offline",  # the old name, still accepted by wandb
}


def resolve_mode(mode: Mode) -> tuple[EffectiveMode, str | None]:
    """Turn what was asked for into what can be done, in at most `PROBE_TIMEOUT_S` seconds.

    ``auto`` is offline without an API key or without an answer from the server, and follows
    ``WANDB_MODE`` where that says offline or disabled. A suite of many runs should resolve the
    mode once and hand the result to each run.

    Returns:
        The mode, and a line to show to the user where data stay behind that could be uploaded.

    >>> resolve_mode("disabled")
    ('disabled', None)
    """
    if mode in ("disabled", "offline"):
        return cast(EffectiveMode, mode), None
    if mode == "auto" and (chosen := _WANDB_MODES.get(_setting("mode"))) is not None:
        return chosen, None

    url = base_url()
    if not has_api_key(url):
        # Without a key wandb would ask for one on the terminal, and wait.
        reason = f"no API key for {url} (run `wandb login`, or set WANDB_API_KEY)"
        return "offline", None if mode == "auto" else sync_note(reason)
    # Who asks for online accepts to wait for a slow server: there only wandb.init() decides.
    if mode == "auto" and not _answers(url, PROBE_TIMEOUT_S):
        return "offline", sync_note(f"no answer from {url} within {PROBE_TIMEOUT_S:g} s")
    return "online", None


def sync_note(reason: str, directory: str = UNKNOWN_DIRECTORY) -> str:
    """Say in one line why a run was not uploaded, and how to do it later.

    >>> sync_note("no answer", "results/wandb/offline-run-1")
    'W&B: no answer; kept on disk, upload it with `wandb sync results/wandb/offline-run-1`'
    """
    return f"W&B: {reason}; kept on disk, upload it with `wandb sync {directory}`"


def base_url() -> str:
    """Return the address of the W&B server, as wandb itself would choose it."""
    return _setting("base_url").rstrip("/") or "https://api.wandb.ai"


def has_api_key(url: str) -> bool:
    """Tell whether wandb would find credentials for the server at `url`."""
    if any(os.environ.get(name) for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE")):
        return True
    if _setting("api_key"):
        return True
    path = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
    try:
        entry = netrc.netrc(path).authenticators(urlsplit(url).netloc)
    except (OSError, netrc.NetrcParseError):
        return False  # absent or unreadable: wandb finds no key there either
    return entry is not None and bool(entry[2])


def _setting(name: str) -> str:
    """Read one W&B setting: the environment, then ./wandb/settings, then the user's file."""
    if value := os.environ.get(f"WANDB_{name.upper()}"):
        return value
    home = Path(os.environ.get("WANDB_CONFIG_DIR") or "~/.config/wandb").expanduser()
    folder = Path(os.environ.get("WANDB_DIR") or ".") / "wandb"
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read([home / "settings", folder / "settings"])
    except configparser.Error:
        return ""
    return parser.get("default", name, fallback="")


def _answers(url: str, timeout_s: float) -> bool:
    """Tell whether a server at `url` says anything at all within `timeout_s` seconds."""
    answered = threading.Event()

    def probe() -> None:
        try:
            with urllib.request.urlopen(url, timeout=timeout_s):
                answered.set()
        except urllib.error.HTTPError as error:
            if error.code < 500:  # it lives, it only has no page there
                answered.set()
        except urllib.error.URLError as error:
            # A certificate that Python does not know, but wandb may: somebody is there.
            if isinstance(error.reason, ssl.SSLError):
                answered.set()
        except (OSError, ValueError):
            return

    # A thread, because looking up the server's name has no time-out of its own.
    thread = threading.Thread(target=probe, daemon=True)
    thread.start()
    thread.join(timeout_s)
    return answered.is_set()
