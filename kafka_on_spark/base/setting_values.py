"""Parses the texts of settings' values, as Kafka's ConfigDef does.

A parser returns a value, or raises a ValueError that says what is allowed.
"""

import re
from collections.abc import Callable
from typing import Final

from kafka_on_spark.base.ids import whole_number

LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1


def integer(low: int, high: int = LONG_MAX) -> Callable[[str], int]:
    """Return the parser of a number. Source: ConfigDef.parseType, LONG and (to 2^31-1) INT."""

    def parse(text: str) -> int:
        try:
            value = whole_number(text.strip())
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return value

    return parse


def ratio(text: str) -> float:
    """Return a part of one.

    Raises:
        ValueError: It is none; the text says what is allowed, as of all parsers here.
    """
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError("a number from 0 to 1")
    return value


def boolean(text: str) -> bool:
    """Return a truth value. Source: ConfigDef.parseType, BOOLEAN."""
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError("true or false")
    return word == "true"


def list_of(*allowed: str) -> Callable[[str], str]:
    """Return the parser of some of `allowed`, in any order. Source: ConfigDef.ValidList."""

    def parse(text: str) -> str:
        words = [word.strip() for word in text.split(",")]
        if not set(words) <= set(allowed) or len(set(words)) != len(words):
            raise ValueError(f"{' or '.join(allowed)}, or both with a comma between")
        return ",".join(words)

    return parse


def one_of(*allowed: str, reason: str = "") -> Callable[[str], str]:
    """Return the parser of one of `allowed`. Source: ConfigDef.ValidString. `reason`: why another
    value of Kafka's can't be obeyed. Such a one is a number, a flag or a codec: blanks around it
    and its case say nothing."""
    words = " or ".join(allowed) + (reason and f": {reason}")

    def parse(text: str) -> str:
        given = text.strip().lower() if reason else text
        if given not in allowed:
            raise ValueError(words)
        return given

    return parse


_THROTTLED: Final = re.compile(r"\*|((0|[1-9]\d*):(0|[1-9]\d*)(,(?!$)|$))*")


def replica_list(text: str) -> str:
    """Return a list of throttled replicas. Source: ThrottledReplicaListValidator."""
    if _THROTTLED.fullmatch(text) is None:
        raise ValueError("'*' for all replicas, or partition:broker pairs as in '0:1,0:2'")
    return text
