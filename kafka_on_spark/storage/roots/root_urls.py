"""Normalizes the URLs of roots: what users give becomes what is stored."""

import os
import re
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from kafka_on_spark.errors import InvalidRootError
from kafka_on_spark.storage.access.store_clients import PACKAGES

# Characters that a store's client or a URL parser does not take literally.
_AMBIGUOUS: Final = re.compile(r"[*?\[\]\\\s]")

# What Kafka's clients are given: a host and a port, perhaps after a listener's protocol.
_SERVER: Final = re.compile(r"(?:(?P<protocol>\w+)://)?(?:\[[\da-fA-F:.]+\]|[\w.-]+):\d{2,5}")

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
