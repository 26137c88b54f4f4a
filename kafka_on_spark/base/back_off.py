"""How long to pause between tries: each pause is twice as long as the last, up to a limit.

Not tenacity's: its import takes longer than all of this floor's, in each of Spark's Python
processes, and its loop would hold a caller's, which waits for other things too. No decision rests
on it.
"""

import math
from collections.abc import Iterator
from itertools import count

DOUBLINGS_MAX = 62
"""A root may be away for days: the exponent is bounded."""


def pause_ms(pause_count: int, first_ms: float, max_ms: float = math.inf) -> float:
    """Return the next pause after so many; never less than `first_ms`."""
    longer: float = first_ms * 2 ** min(pause_count, DOUBLINGS_MAX)
    return min(longer, max(first_ms, max_ms))


def pauses_ms(first_ms: float, max_ms: float = math.inf) -> Iterator[float]:
    """Yield one pause after the other, without end."""
    return (pause_ms(each, first_ms, max_ms) for each in count())
