"""A job that processes of a sweep share and that none of them can do; imports next to nothing."""

import errno
from collections.abc import Callable


class Refused:
    """Its folder cannot be written."""

    def work(self, worker: int, tick: Callable[[], None]) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "journal")
