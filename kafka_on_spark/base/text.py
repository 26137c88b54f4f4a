"""Text that others wrote: how it is shown, and how JSON is parsed.

One function escapes it for terminals, HTML pages and log lines: keys, values, ids, racks, paths,
causes. A terminal obeys raw escapes (they set its title, move its cursor), and direction marks
reverse the order of the text beside them: a reader would see another text than there is.

Python's parser of JSON raises a RecursionError for nested brackets, accepts numbers that overflow
later, and accepts half a character (a lone surrogate), which fails where it is shown or stored. The
parser stays the standard library's: msgspec takes four times as long to import, in each of Spark's
Python processes, and accepts other numbers.
"""

import json
import re
import unicodedata
from typing import Any, Final, NoReturn

_HALF_CHARACTER: Final = re.compile(r"\\u[dD][89a-fA-F]")
_WHOLE_MIN: Final = -(2**63)
_WHOLE_END: Final = 2**64
_DIGITS_MAX: Final = 20


def visible(text: str, *, keep: str = "") -> str:
    """Return `text` with each character that is not visible as an escape: \\x1b, \\u202e.

    These are control and format characters (among them direction marks), lone surrogates, line and
    paragraph separators, and code points without a meaning. Blanks stay, and those in `keep`.
    """
    if text.isprintable():
        return text
    return "".join(
        each
        if each.isprintable() or each in keep or unicodedata.category(each) == "Zs"
        else _escaped(each)
        for each in text
    )


def visible_lines(text: str) -> str:
    """Return text of several lines, each line as `visible` returns it."""
    return visible(text, keep="\n")


def visible_json(value: Any, *, indent: int | None = None) -> str:
    """Return a plain value as JSON of visible ASCII; JSON escapes all other characters."""
    # JSON does not escape DEL, the one control character above the visible ones.
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")


def quoted(text: str) -> str:
    """Return text in quotes: its ends are visible, and no other text looks the same."""
    marked = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{visible(marked)}"'


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def parse_json(content: bytes | str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: It is no JSON, is nested too deep, or has NaN, an infinite number, a number of
            more than 64 bits or half a character.
    """
    text = content if isinstance(content, str) else content.decode()
    try:
        value = _DECODER.decode(text)
        if _HALF_CHARACTER.search(text) is not None:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return value


def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON that a person wrote: an object_pairs_hook for `json.loads`.

    Raises:
        ValueError: A name is there twice: of two values under one name, one would be lost.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} is there twice in one object")
        found[name] = value
    return found


def _bounded_int(digits: str) -> int:
    if len(digits) > _DIGITS_MAX or not _WHOLE_MIN <= (number := int(digits)) < _WHOLE_END:
        raise ValueError("a number of more than 64 bits")
    return number


def _finite(digits: str) -> float:
    number = float(digits)
    if abs(number) == float("inf"):
        raise ValueError("a number that is too large")
    return number


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name}, which is not a number in JSON")


# One for all texts: `json.loads` would make one for each.
_DECODER: Final = json.JSONDecoder(
    parse_int=_bounded_int, parse_float=_finite, parse_constant=_refused
)
