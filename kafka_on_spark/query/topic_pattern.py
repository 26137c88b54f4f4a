r"""`subscribePattern` in Python's syntax; syntax that only Java has is refused by its name.

Spark's Kafka source takes Java's syntax. Most patterns mean the same in both. Some Java patterns do
not compile in Python, and some compile and mean something else (``[a-z&&[^x]]``).
"""

import re
import warnings
from functools import lru_cache
from typing import Final

from kafka_on_spark.errors import InvalidRequestError

# Escapes that only Java has outside of a character class: the name, and what to write instead.
_JAVA_ESCAPES: Final = {
    "Q": (r"quoting \Q...\E", "escape each character with a backslash"),
    "E": (r"quoting \Q...\E", "escape each character with a backslash"),
    "p": (r"a property class \p{...}", "a class such as [a-z]"),
    "P": (r"a property class \P{...}", "a class such as [^a-z]"),
    "h": (r"horizontal white space \h", r"\s"),
    "H": (r"horizontal white space \H", r"\S"),
    "V": (r"vertical white space \V", r"\S"),
    "R": (r"a line break \R", "nothing, since topic names have none"),
    "X": (r"a grapheme \X", "."),
    "G": (r"the end of the match before \G", "nothing, since a name is matched as a whole"),
    "z": (r"the end of input \z", "nothing, since a name is matched as a whole"),
    "k": (r"a back reference \k<name>", "(?P=name)"),
    "e": (r"the escape character \e", r"\x1b"),
    "c": (r"a control character \cX", r"\x and its code"),
    "0": (r"an octal character \0n", r"\x and its code"),
}
_GROUP: Final = re.compile(
    r"\(\?(?:(?P<named><[a-zA-Z])|(?P<flags>[a-zA-Z]*-?[a-zA-Z]*)(?P<close>[:)]))"
)
_PYTHON_FLAGS: Final = frozenset("aiLmsux-")


@lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return `pattern` compiled.

    Raises:
        InvalidRequestError: It is not in Python's syntax; Java's syntax is named, if it has any.
    """
    _refuse_java(pattern)
    try:
        with warnings.catch_warnings():
            # "Possible nested set": Python warns where a later version may mean another thing.
            warnings.simplefilter("error", FutureWarning)
            return re.compile(pattern)
    except (re.error, FutureWarning) as error:
        raise InvalidRequestError(
            f"a pattern of topics can't be {pattern!r}: {error}; write it in the syntax of"
            " Python's re module"
        ) from None


def _refuse_java(pattern: str) -> None:
    place, is_class = 0, False
    while place < len(pattern):
        character = pattern[place]
        if character == "\\":
            _refuse_escape(pattern, pattern[place + 1 : place + 3])
            place += 2
            continue
        if is_class:
            is_class = _is_still_class(pattern, place)
        elif character == "[":
            is_class = True
            place = _first_of_class(pattern, place)
            continue
        elif character == "(":
            _refuse_group(pattern, place)
        place += 1


def _first_of_class(pattern: str, place: int) -> int:
    """Return where to begin to scan a class's members: a "]" that comes first is a member."""
    place += 1
    if pattern[place : place + 1] == "^":
        place += 1
    if pattern[place : place + 1] == "]":
        place += 1
    return place


def _is_still_class(pattern: str, place: int) -> bool:
    """Return whether the class continues after the character at `place`."""
    if pattern.startswith("&&", place):
        raise _java(pattern, "an intersection of classes [..&&..]", "a look-ahead (?=...)")
    if pattern[place] == "[":
        raise _java(pattern, "a class in a class [..[..]]", r"one class; a bracket itself as \[")
    return pattern[place] != "]"


def _refuse_escape(pattern: str, escape: str) -> None:
    if escape[:1] in _JAVA_ESCAPES:
        raise _java(pattern, *_JAVA_ESCAPES[escape[:1]])
    if escape == "x{":
        raise _java(pattern, r"a code point \x{...}", r"\x and two digits")
    if escape == "b{":
        raise _java(pattern, r"a boundary \b{g}", r"\b")


def _refuse_group(pattern: str, place: int) -> None:
    found = _GROUP.match(pattern, place)
    if found is None:
        return
    if found["named"]:
        raise _java(pattern, "a named group (?<name>...)", "(?P<name>...)")
    if not set(found["flags"]) <= _PYTHON_FLAGS:
        raise _java(pattern, f"the flags (?{found['flags']})", "(?i), (?s) or (?x)")
    if found["close"] == ")" and (place > 0 or "-" in found["flags"]):
        raise _java(pattern, f"flags in the middle (?{found['flags']})", "(?i:...)")


def _java(pattern: str, name: str, instead: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"a pattern of topics can't be {pattern!r}: {name} is Java's syntax, and patterns"
        f" are in Python's here; write {instead} instead"
    )
