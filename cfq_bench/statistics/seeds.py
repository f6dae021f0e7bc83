"""Which seeds a table compares: one set for all of its rows."""

from collections.abc import Iterable


def compared_seeds(rows: Iterable[Iterable[int]]) -> tuple[int, ...]:
    """The seeds that a table's means are taken over, ascending.

    Of the rows' own sets of seeds, the one with most (rows that have all of it) x (seeds), so that
    a row that is not finished costs the others no seeds; of equals the larger, then the one of the
    lesser seeds. A row that lacks some of them is shown on its own seeds, marked.

    Args:
        rows: the seeds of every row that have a finished run.

    >>> compared_seeds([[0, 1, 2, 3, 4], [0, 1, 2]])
    (0, 1, 2)
    >>> compared_seeds([[0, 1, 2], [3, 1, 2, 0], [0]])
    (0, 1, 2)
    """
    own = [frozenset(row) for row in rows]
    candidates = sorted({tuple(sorted(row)) for row in own})
    best: tuple[int, ...] = ()
    most = (0, 0)
    for candidate in candidates:
        having = sum(row.issuperset(candidate) for row in own)
        score = (having * len(candidate), len(candidate))
        if score > most:
            most, best = score, candidate
    return best


def shared_seeds(rows: Iterable[Iterable[int]]) -> tuple[int, ...]:
    """Seeds that every row has, ascending.

    >>> shared_seeds([{0: 1, 1: 1}, {1: 1, 2: 1}])
    (1,)
    """
    own = [set(row) for row in rows]
    return tuple(sorted(set.intersection(*own))) if own else ()


def seeds_text(seeds: Iterable[int]) -> str:
    """Seeds as a person writes them.

    >>> seeds_text((0, 1, 2, 3, 4)), seeds_text((0, 2)), seeds_text((7,))
    ('seeds 0-4', 'seeds 0, 2', 'seed 7')
    """
    every = list(seeds)
    if len(every) == 1:
        return f"seed {every[0]}"
    if len(every) > 2 and every == list(range(every[0], every[-1] + 1)):
        return f"seeds {every[0]}-{every[-1]}"
    return f"seeds {', '.join(map(str, every))}"
