"""Escapes in separators, markers and format strings, as kcat and C spell them.

A shell passes a tab or a null byte on only with quoting of its own, so `\\t` and `\\x00` are read
here. Source: kcat's fmt_add.
"""

import re
from functools import partial
from typing import Final

_ESCAPE: Final = re.compile(rb"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_NAMED: Final = {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"\\": b"\\"}


def unescaped(text: str, *, keeps_unknown: bool = False) -> bytes:
    r"""Return the bytes that `text` means: \t, \n, \r, \\, \xNN and \NNN (octal).

    Any other character behind a backslash is itself; if unknown escapes are kept, its backslash
    stays: for null, MySQL and PostgreSQL write \N.
    """
    meaning = partial(_meaning, keeps_unknown=keeps_unknown)
    return _ESCAPE.sub(meaning, text.encode(errors="surrogateescape"))


def _meaning(match: re.Match[bytes], *, keeps_unknown: bool) -> bytes:
    given = match[1]
    if given[:1] == b"x" and len(given) > 1:
        return bytes([int(given[1:], 16)])
    if given.isdigit() and given.translate(None, b"01234567") == b"":
        return bytes([int(given, 8) & 0xFF])
    return _NAMED.get(given, match[0] if keeps_unknown else given)
