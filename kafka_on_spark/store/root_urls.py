"""Normalizes the URLs of roots and clusters: what users give becomes what is stored.

A cluster's URL is its metadata root, or several of them with commas between, as Kafka's bootstrap
servers are given. The list may be old: the voters themselves say who the voters are.
"""

import os
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from kafka_on_spark.base.errors import InvalidRootError
from kafka_on_spark.store.storage_options import PACKAGES

# Characters that a store's client or a URL parser does not take literally.
_AMBIGUOUS: Final = re.compile(r"[*?\[\]\\\s]")

# What Kafka's clients are given: a host and a port, perhaps after a listener's protocol.
_SERVER: Final = re.compile(r"(?:(?P<protocol>\w+)://)?(?:\[[\da-fA-F:.]+\]|[\w.-]+):\d{2,5}")

BETWEEN: Final = ","

_IS_PLACED: Final = re.compile(r"[/~.]|\w+:")
"""Begins a root that is not a mere name: an absolute path, a URL, or a dot."""

MetadataRoots = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""One metadata root, several with commas between, or several."""

_GIVE: Final = "give a folder, or a URL such as s3://…, gs://… or abfss://…"


def normalize(root: object) -> str:
    """Return a root's URL in the form that is stored: an absolute path, or scheme://…

    As in shells, ~ is the user's home, and ~name another user's.

    Raises:
        InvalidRootError: It is empty, has an unknown scheme, or more than a bucket and a path.
    """
    given = os.fspath(root) if isinstance(root, os.PathLike) else root
    text = given.rstrip("/") if isinstance(given, str) else ""
    if not text:
        raise InvalidRootError(f"{root!r} is not a root: give a folder or a URL such as s3://…")
    _check_no_server(text)
    text = _from_home(text)
    try:
        parts = urlsplit(text)
    except ValueError:
        raise InvalidRootError(f"{text!r} is not a root: it is not a URL; {_GIVE}") from None
    if parts.scheme == "file":
        text = os.path.abspath(unquote(parts.path))
    elif len(parts.scheme) <= 1:
        text = os.path.abspath(text)
    else:
        _check_url(parts)
        text = f"{parts.scheme}://{parts.netloc}{parts.path}"
    if "%" in text:
        # delta-rs writes to this path, and reads from the decoded one.
        raise InvalidRootError(f"{text!r} can't be a root: its name must be without '%'")
    return text


def _check_no_server(text: str) -> None:
    found = _SERVER.fullmatch(text)
    if found is not None and (found["protocol"] or "").lower() not in PACKAGES:
        raise InvalidRootError(
            f"{text!r} is not a root, but a server's address, and a cluster has no servers: in"
            " place of bootstrap servers give its metadata root, a folder or a URL such as"
            " s3://bucket/metadata"
        )


def _from_home(text: str) -> str:
    expanded = os.path.expanduser(text)
    if expanded.startswith("~"):
        user = expanded.partition("/")[0]
        raise InvalidRootError(
            f"{text!r} can't be a root: no home folder is known for {user}; give the whole path, or"
            f" ./{text} for a folder of that name"
        )
    return expanded


def _check_url(parts: SplitResult) -> None:
    # The URL may hold a password: never shown.
    has_user = "@" in (parts.netloc or parts.path) and not parts.scheme.startswith("abfs")
    if has_user or parts.password is not None or parts.query or parts.fragment:
        raise InvalidRootError(
            f"a root of {parts.scheme}:// has more than a bucket and a path: give credentials as"
            " storage options, since a root's URL is stored"
        )
    if parts.scheme not in PACKAGES or not parts.netloc:
        raise InvalidRootError(
            f"'{parts.scheme}://{parts.netloc}{parts.path}' is not a root: {_GIVE}"
        )
    # The log would go to the folder that `..` leads to, and segments to a folder named `..`.
    if {"", ".", ".."} & set(parts.path.split("/")[1:]) or _AMBIGUOUS.search(parts.path):
        raise InvalidRootError(
            f"{parts.geturl()!r} can't be a root: give a path without empty names, '.', '..',"
            " blanks, '*', '[' and ']'"
        )


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
    which nobody meant."""
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
    return tuple(url.split(BETWEEN))
