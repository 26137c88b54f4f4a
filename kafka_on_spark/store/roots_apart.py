"""Decides whether roots lie apart: each is a folder of its own, and none lies in another; and
whether two URLs are one place.

Two brokers in one folder would lose all copies with one disk, and mix their files. Apart from
`root_identity`, which knows a root by its files: an empty root has none.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from kafka_on_spark.base.errors import InvalidRootError, KafkaStorageError
from kafka_on_spark.base.ids import BrokerId, NodeId
from kafka_on_spark.store.deadlines import short_call_seconds, within
from kafka_on_spark.store.root_urls import roots_in
from kafka_on_spark.store.roots import is_local

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
    for name, root in _metadata_roots(metadata_root):
        _check_apart(f"the {name}", root, taken)
        taken[f"the {name}"] = root
    for broker_id, root in roots.items():
        _check_apart(f"the root of broker {broker_id}", root, taken)
        taken[f"the root of broker {broker_id}"] = root


def check_root_apart(
    metadata_root: str, roots: Mapping[BrokerId, str], broker_id: BrokerId, root: str
) -> None:
    """Check that a root (normalized) lies apart from the metadata root and other brokers' `roots`.

    Raises:
        InvalidRootError: It is, holds or lies in one of them.
    """
    others = {
        f"the root of broker {each}": other for each, other in roots.items() if each != broker_id
    }
    named = {f"the {name}": each for name, each in _metadata_roots(metadata_root)}
    _check_apart(f"the root of broker {broker_id}", root, {**named, **others})


def check_metadata_root_apart(
    voters: Mapping[NodeId, str], roots: Mapping[BrokerId, str], node_id: NodeId, root: str
) -> None:
    """Check that a new voter's root (normalized) lies apart from the brokers' `roots` and those of
    other voters.

    Raises:
        InvalidRootError: It is, holds or lies in one of them.
    """
    taken = {
        f"the metadata root of voter {each}": other
        for each, other in voters.items()
        if each != node_id
    }
    taken |= {f"the root of broker {broker_id}": other for broker_id, other in roots.items()}
    _check_apart(f"the metadata root of voter {node_id}", root, taken)


def _metadata_roots(url: str) -> Iterator[tuple[str, str]]:
    roots = roots_in(url)
    for number, root in enumerate(roots, 1):
        yield ("metadata root" if len(roots) == 1 else f"metadata root {number}"), root


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
            return within(root, lambda: path.resolve().parts, short_call_seconds(root))
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

    Raises:
        KafkaStorageError: A disk does not answer.
    """
    if place_of(root) == place_of(other):
        return True
    if not (is_local(root) and is_local(other)):
        return False
    is_one = partial(_is_one_folder, root, other)
    return within(root, is_one, short_call_seconds(root))


def _is_one_folder(root: str, other: str) -> bool:
    try:
        return os.path.samefile(root, other)
    except OSError:  # one of them is not there, or not to be seen: nothing shows that it is one
        return False
