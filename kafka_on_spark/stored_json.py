"""JSON that was read from a file or handed over: values, or one kind of error.

Python's reader raises what its writer never made it raise: a RecursionError for nested brackets, an
OverflowError later for numbers that are no numbers, and a text with half a character goes through
it and fails where it is shown or stored.
"""

import json
import re
from typing import Any, Final, NoReturn

_HALF_CHARACTER: Final = re.compile(r"\\u[dD][89a-fA-F]")
_WHOLE_MIN: Final = -(2**63)
_WHOLE_END: Final = 2**64
_DIGITS_MAX: Final = 20


def parse_json(content: bytes | str) -> Any:
    """Return what JSON says.

    Raises:
        ValueError: It can't be read: it is no JSON, nested too deep, or has a number that is none
            or has more than 64 bits, or half a character.
    """
    text = content if isinstance(content, str) else content.decode()
    try:
        value = json.loads(text, parse_int=_whole, parse_float=_finite, parse_constant=_refused)
        if _HALF_CHARACTER.search(text) is not None:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return value


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS_MAX or not _WHOLE_MIN <= (number := int(digits)) < _WHOLE_END:
        raise ValueError("a number of more than 64 bits")
    return number


def _finite(digits: str) -> float:
    number = float(digits)
    if abs(number) == float("inf"):
        raise ValueError("a number that is too large")
    return number


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
