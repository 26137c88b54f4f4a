"""Whose turn it is to do what one process does for all: of the first to come after an interval.

Clocks of processes differ, and a wrong one must neither keep the others from their turns for long
nor have each of them take all: so a last turn counts within an interval of now, before or after.
"""


def is_turn(last_ms: int | None, *, now_ms: int, interval_ms: int) -> bool:
    """Return whether it is time again. `last_ms`: the last turn; None: none is known."""
    return last_ms is None or abs(now_ms - last_ms) >= interval_ms


def newest_turn(mine_ms: int | None, told_ms: int, *, now_ms: int) -> int | None:
    """Return the last turn, by what a process remembers and what it is told; None: none is known.

    What is nearer to now has more to say: a turn far in the future is a wrong clock's.
    """
    if mine_ms is None:
        return told_ms
    return min(mine_ms, told_ms, key=lambda each: abs(now_ms - each))
