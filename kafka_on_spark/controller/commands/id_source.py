"""What decisions take new ids and random numbers from: they draw none themselves.

Apart from `commands`, which most processes that make ids do not need.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IdSource:
    """Where a deciding process takes new ids and random numbers from: decisions have none.

    Attributes:
        new_uuid: Returns an id that nothing else has.
        random_below: Returns a whole number from 0 to below its argument.
    """

    new_uuid: Callable[[], str]
    random_below: Callable[[int], int]
