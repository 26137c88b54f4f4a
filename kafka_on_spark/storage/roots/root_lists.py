"""A cluster's URL: its metadata root, or several of them with commas between, as Kafka's bootstrap
servers are given. The list may be old: the voters themselves say who the voters are.
"""

import os
from collections.abc import Sequence
from typing import Final

from kafka_on_spark.errors import InvalidRootError
from kafka_on_spark.storage.roots.roots import normalize

BETWEEN: Final = ","

MetadataRoots = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""One metadata root, several with commas between, or several."""


def cluster_url(given: object) -> str:
    """Return the URL of a cluster, its roots normalized. `given`: one root, a text with commas
    between several, or a sequence of roots.

    Raises:
        InvalidRootError: One is not the URL of a root, has a comma in its name, or is given twice.
    """
    roots = [normalize(each) for each in _each(given)]
    for root in roots:
        if BETWEEN in root:
            raise InvalidRootError(
                f"{root!r} can't be a metadata root: its name must be without '{BETWEEN}'"
            )
        if roots.count(root) > 1:
            raise InvalidRootError(f"the metadata root {root!r} is given twice: name each once")
    return BETWEEN.join(roots)


def _each(given: object) -> Sequence[object]:
    if isinstance(given, str):
        return [each.strip() for each in given.split(BETWEEN)]
    if isinstance(given, Sequence) and not isinstance(given, bytes | os.PathLike) and given:
        return given
    return [given]


def roots_in(url: str) -> tuple[str, ...]:
    """Return the metadata roots that a cluster's URL names."""
    return tuple(url.split(BETWEEN))
