"""How text that others wrote is shown: keys, values, ids, racks, paths, names, causes.

One function, for terminals, HTML pages and log lines alike. Of what is shown raw, a terminal obeys
escapes (they set its title, move its cursor), and marks of direction turn the order of what stands
beside them: a reader would see another text than there is. At the bottom, since errors and log
lines show such text, too.
"""

import json
import unicodedata
from typing import Any


def visible(text: str, *, keep: str = "") -> str:
    """Return `text` with whatever is not a visible character as an escape: \\x1b, \\u202e.

    That is: control and format characters (marks of direction are some), lone surrogates, line and
    paragraph separators, and what has no meaning in Unicode. Blanks stay, and what is in `keep`.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep or _is_blank(each) else _escaped(each)
        for each in text
    )


def visible_lines(text: str) -> str:
    """Return text of several lines, each as `visible` has it."""
    return visible(text, keep="\n")


def visible_json(value: Any, *, indent: int | None = None) -> str:
    """Return a plain value as JSON of visible ASCII: all else is an escape that JSON has."""
    # JSON leaves the one control character above the visible ones as it is.
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")


def quoted(text: str) -> str:
    """Return text in quotes, so that its ends are seen and nothing else looks like it."""
    marked = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{visible(marked)}"'


def _is_blank(character: str) -> bool:
    return unicodedata.category(character) == "Zs"


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
