"""Peak memory of this process."""

import resource
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_mib() -> float:
    """Most memory that this program ever held.

    On Linux, `getrusage` counts what the parent held before it became this program.
    """
    if STATUS.is_file():
        lines = STATUS.read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 2**10
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 2**20 if sys.platform == "darwin" else most / 2**10  # bytes there, KiB here
