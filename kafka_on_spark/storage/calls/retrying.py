"""Calls a function again until it answers, with random, exponentially growing pauses."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until_found(ask: Callable[[], T | None], seconds: float) -> T | None:
    """Return what `ask` finds; None if it finds nothing for `seconds`."""
    # In the function: tenacity imports asyncio, which would add a twentieth to the start of each of
    # Spark's Python processes, and only an unknown outcome needs it. It can move up once tenacity
    # does without asyncio.
    from tenacity import (
        RetryError,
        Retrying,
        retry_if_result,
        stop_after_delay,
        wait_random_exponential,
    )

    try:
        found: T | None = Retrying(
            retry=retry_if_result(lambda found: found is None),
            stop=stop_after_delay(seconds),
            wait=wait_random_exponential(multiplier=0.05, max=2.0),
        )(ask)
    except RetryError:
        return None
    return found
