"""A cluster's URL: its metadata root, or several of them with commas between, as Kafka's bootstrap
servers are given. The list may be old: the voters themselves say who the voters are.
"""

import os
import re
from collections.abc import Sequence
from typing import Final

from kafka_on_spark.errors import InvalidRootError
from kafka_on_spark.storage.roots.roots import normalize

BETWEEN: Final = ","

_IS_PLACED: Final = re.compile(r"[/~.]|\w+:")
"""Begins a root that is not a mere name: an absolute path, a URL, or a dot."""

MetadataRoots = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""One metadata root, several with commas between, or several."""


def cluster_url(given: object) -> str:
    """Return the URL of a cluster, its roots normalized. `given`: one root, a text with commas
    between several, or a sequence of roots.

    Raises:
        InvalidRootError: One is not the URL of a root, has or seems to have a comma in its name, or
            is given twice.
    """
    roots = [normalize(each) for each in _each(given)]
    if isinstance(given, str):
        _check_meant_as_list(given)
    for root in roots:
        if BETWEEN in root:
            raise InvalidRootError(
                f"{root!r} can't be a metadata root: its name must be without '{BETWEEN}'"
            )
        if roots.count(root) > 1:
            raise InvalidRootError(f"the metadata root {root!r} is given twice: name each once")
    return BETWEEN.join(roots)


def one_root(given: str | os.PathLike[str]) -> str:
    """Return the URL of one metadata root, normalized.

    Raises:
        InvalidRootError: It is not the URL of a root, or has a comma in its name.
    """
    return cluster_url([normalize(given)])


def _each(given: object) -> Sequence[object]:
    if isinstance(given, str):
        return [each.strip() for each in given.split(BETWEEN)]
    if isinstance(given, Sequence) and not isinstance(given, bytes | os.PathLike) and given:
        return given
    return [given]


def _check_meant_as_list(given: str) -> None:
    """Check that no comma belongs to the name of one root: what follows it would be a folder here,
    which nobody meant.

    Raises:
        InvalidRootError: A mere name follows a comma, after an absolute path or a URL.
    """
    first, *others = (each.strip() for each in given.split(BETWEEN))
    name = next((each for each in others if not _IS_PLACED.match(each)), None)
    if name is not None and _IS_PLACED.match(first) and not first.startswith("."):
        # A URL may hold a password, with a comma in it.
        shown = "the text" if "@" in given else repr(given)
        raise InvalidRootError(
            f"{shown} names {1 + len(others)} metadata roots, since commas stand between them, and"
            f" one of them is a mere name: give roots without '{BETWEEN}' in their names, with ./"
            " before one that lies here"
        )


def roots_in(url: str) -> tuple[str, ...]:
    """Return the metadata roots that a cluster's URL names."""
    return tuple(url.split(BETWEEN))
