"""Escapes text that others wrote, before it is shown: keys, values, ids, racks, paths, causes.

One function serves terminals, HTML pages and log lines. A terminal obeys raw escapes (they set its
title, move its cursor), and direction marks reverse the order of the text beside them: a reader
would see another text than there is. The module is on the lowest floor, since errors and log lines
show such text, too.
"""

import json
import unicodedata
from typing import Any


def visible(text: str, *, keep: str = "") -> str:
    """Return `text` with each character that is not visible as an escape: \\x1b, \\u202e.

    These are control and format characters (among them direction marks), lone surrogates, line and
    paragraph separators, and code points without a meaning. Blanks stay, and those in `keep`.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep or _is_blank(each) else _escaped(each)
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


def _is_blank(character: str) -> bool:
    return unicodedata.category(character) == "Zs"


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
