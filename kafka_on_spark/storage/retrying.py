"""Asking again until there is an answer, with growing and random pauses, for a while."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until_found(ask: Callable[[], T | None], seconds: float) -> T | None:
    """Return what `ask` finds; None if it has found nothing for `seconds`."""
    # Its import brings asyncio's along, for which every process would wait.
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
