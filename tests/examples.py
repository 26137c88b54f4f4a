"""How many examples hypothesis tries of the tests whose examples take longest."""

from typing import Final

from hypothesis import settings

DEFAULT_PART: Final = 3
"""A default run, which tries the same examples each time, takes one of so many."""


def many(count: int) -> int:
    """Return `count` with --long, and a part of it by default, as tests/conftest.py has set."""
    return max(1, count // DEFAULT_PART) if settings().derandomize else count
