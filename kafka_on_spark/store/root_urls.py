"""URLs of roots and clusters: what users give becomes what is stored; whether two are one place.

A cluster's URL is its metadata root, or several of them with commas between, as Kafka's bootstrap
servers are given. The list may be old: the voters themselves say who the voters are.

Roots lie apart: each is a folder of its own, and none lies in another. Two brokers in one folder
would lose all copies with one disk, and mix their files. `root_identity` knows a root by its files,
and an empty root has none.
"""

import logging
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from kafka_on_spark.base.errors import InvalidRootError, KafkaStorageError
from kafka_on_spark.base.ids import BrokerId, NodeId
from kafka_on_spark.store.deadlines import SHORT, is_local, within
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

log = logging.getLogger(__name__)

# Two names of one kind of store.
_ALIASES: Final = {"s3a": "s3", "abfss": "abfs"}


def check_roots_apart(metadata_root: str, roots: Mapping[BrokerId, str]) -> None:
    """Check that a new cluster's roots (normalized) lie apart, links followed.

    `metadata_root`: one, or several with commas between.

    Raises:
        InvalidRootError: One is, holds or lies in another root or a metadata root.
    """
    taken: dict[str, str] = {}
    for name, root in _named(metadata_root, roots).items():
        _check_apart(name, root, taken)
        taken[name] = root


def check_root_apart(
    metadata_root: str, roots: Mapping[BrokerId, str], broker_id: BrokerId, root: str
) -> None:
    """Check the same of one root, the metadata root and other brokers' `roots`."""
    others = {each: other for each, other in roots.items() if each != broker_id}
    _check_apart(_name(broker_id), root, _named(metadata_root, others))


def check_metadata_root_apart(
    voters: Mapping[NodeId, str], roots: Mapping[BrokerId, str], node_id: NodeId, root: str
) -> None:
    """Check the same of a new voter's root, those of other voters and the brokers' `roots`."""
    taken = {
        f"the metadata root of voter {each}": other
        for each, other in voters.items()
        if each != node_id
    }
    taken |= {_name(each): other for each, other in roots.items()}
    _check_apart(f"the metadata root of voter {node_id}", root, taken)


def _name(broker_id: BrokerId) -> str:
    return f"the root of broker {broker_id}"


def _named(metadata_root: str, roots: Mapping[BrokerId, str]) -> dict[str, str]:
    """Return all roots by what errors call them."""
    given = roots_in(metadata_root)
    named = {"the metadata root": metadata_root}
    if len(given) > 1:
        named = {f"the metadata root {number}": each for number, each in enumerate(given, 1)}
    return named | {_name(each): root for each, root in roots.items()}


def _check_apart(name: str, root: str, taken: Mapping[str, str]) -> None:
    place = _path_parts(root)
    for owner, other in taken.items():
        other_place = _path_parts(other)
        if place == other_place:
            relation = "is"
        elif place[: len(other_place)] == other_place:
            relation = "lies in"
        elif other_place[: len(place)] == place:
            relation = "holds"
        else:
            continue
        raise InvalidRootError(
            f"{_with_root(name, root)} {relation} {owner}, {other}: give each a"
            " folder of its own, beside the others"
        )


def _with_root(name: str, root: str) -> str:
    """Return a root's name and the root, as "the root /a of broker 1"."""
    owner = name.removeprefix("the root ")
    return f"{name}, {root}," if owner == name else f"the root {root} {owner}"


def _path_parts(root: str) -> tuple[str, ...]:
    """Return the parts of a root's path, from the top; links on local disks are followed, but for
    one that hangs: another root may be to replace it."""
    if is_local(root):
        path = Path(root)
        try:
            return within(root, lambda: path.resolve().parts, SHORT)
        except KafkaStorageError as error:
            log.info("links to %s are not followed: %s", root, error)
            return path.parts
    return place_of(root)


def place_of(root: str) -> tuple[str, ...]:
    """Return what a root's URL (normalized) says of its place: its parts, the scheme by one name.
    Nothing is looked up."""
    if is_local(root):
        return Path(root).parts
    parts = urlsplit(root)
    folders = [each for each in parts.path.split("/") if each]
    return (_ALIASES.get(parts.scheme, parts.scheme), parts.netloc, *folders)


def is_one_place(root: str, other: str) -> bool:
    """Return whether two roots (normalized) are one place: by their URLs, or since both paths lead
    to one folder now, on this host, by links, mounts or a file system that ignores case.

    A folder's device and inode are compared at this moment only, and kept nowhere: they differ
    between hosts, and after a reboot.
    """
    if place_of(root) == place_of(other):
        return True
    if not (is_local(root) and is_local(other)):
        return False
    return within(root, partial(_is_one_folder, root, other), SHORT)


def _is_one_folder(root: str, other: str) -> bool:
    try:
        return os.path.samefile(root, other)
    except OSError:  # one of them is not there, or not to be seen: nothing shows that it is one
        return False


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
        # Readers of Delta take the path as it is, or decode it.
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
    """Return the URL of one metadata root, normalized."""
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
