"""One base seed, one derived seed for each purpose, so that parts vary independently."""

import hashlib


def derive_seed(base: int, *purpose: str) -> int:
    """A seed in [0, 2^31) for one purpose.

    Args:
        base: the run's seed.
        purpose: what the randomness is for, for example ``"split"`` or ``"teacher", "order"``.
            Methods share every purpose but their own noise, so that they see the same split, the
            same teacher and the same batches.

    >>> derive_seed(0, "split") == derive_seed(0, "split")
    True
    >>> derive_seed(0, "split") == derive_seed(1, "split")
    False
    """
    text = ":".join([str(base), *purpose])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1
