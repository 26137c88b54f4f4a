"""Heartbeats of groups' members: `groups/<group>/<member>` on the metadata roots.

Each member replaces its own file; the others read it, and compare. A group's name comes from
people: in a path stands what is harmless of it, and its digest.
"""

import hashlib
import logging
import os
import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.ids import MemberId
from kafka_on_spark.storage.access.storage_options import is_local
from kafka_on_spark.storage.calls.deadlines import short_call_seconds, within
from kafka_on_spark.storage.metadata.hints.hint_file import HintFile, HintRoots
from kafka_on_spark.storage.roots.local_changes import delete_empty_folder, make_folder
from kafka_on_spark.storage.roots.roots import RootFiles

log = logging.getLogger(__name__)

FOLDER: Final = "groups"
_READABLE_MAX: Final = 40
_NOT_HARMLESS: Final = re.compile("[^a-z0-9_-]+")
_OURS: Final = re.compile("[a-z0-9_-]*-[0-9a-f]{32}")


class HeartbeatFiles:
    """Heartbeats in files of a cluster's metadata roots: written to the first that takes them, and
    listened to on all."""

    def __init__(self, roots: HintRoots) -> None:
        self._roots = roots
        self._made: set[str] = set()

    def beat(self, group: str, member_id: MemberId, count: int) -> None:
        """Replace a member's heartbeat, on the first root that takes it."""
        heartbeat = f"{member_id} {count}\n".encode()
        if group in self._made:
            try:
                self._file(group, member_id).write(heartbeat)
            except KafkaStorageError as error:
                log.info("makes the folder of group %r again: %s", group, error)
            else:
                return
        self._make_folders(group)
        self._file(group, member_id).write(heartbeat)
        self._made.add(group)

    def listen(self, group: str, member_ids: Sequence[MemberId]) -> list[tuple[bytes, ...]]:
        """Return what stands of some members' heartbeats, in order; nothing: there is none.

        A member that has changed roots leaves its last one on the root before.
        """
        return [tuple(sorted(self._file(group, each).contents())) for each in member_ids]

    def stop(self, group: str, member_id: MemberId) -> None:
        """Remove a member's heartbeat, where it can be, and the folder if that was the last."""
        for root in self._roots.in_turn():
            self._delete(root, group, [name_in_path(member_id)])
            if is_local(root.url):
                self._remove_if_empty(root.url, group)

    def keep_only(self, group: str, member_ids: Sequence[MemberId]) -> None:
        """Remove the heartbeats of all but these, where it can be."""
        kept = {name_in_path(each) for each in member_ids}
        for root in self._roots.in_turn():
            try:
                names = root.names(f"{root.url}/{_folder(group)}")
            except KafkaStorageError as error:
                log.info("old heartbeats are left on %s: %s", root.url, error)
                continue
            self._delete(
                root, group, [each for each in names if _is_ours(each) and each not in kept]
            )

    def _delete(self, root: RootFiles, group: str, names: Iterable[str]) -> None:
        for name in names:
            try:
                root.delete_file(f"{root.url}/{_folder(group)}/{name}")
            except KafkaStorageError as error:
                log.info("a heartbeat is left on %s: %s", root.url, error)

    def _remove_if_empty(self, root: str, group: str) -> None:
        path = f"{root}/{_folder(group)}"
        try:
            within(root, partial(delete_empty_folder, path), short_call_seconds(root))
        except (OSError, KafkaStorageError) as error:
            log.debug("%s stays: %s", path, error)  # others have heartbeats there
        else:
            self._made.discard(group)

    def _file(self, group: str, member_id: MemberId) -> HintFile:
        return HintFile(self._roots, _path(group, member_id))

    def _make_folders(self, group: str) -> None:
        """Make the folders on local roots, and never the root; a write tells what is missing."""
        roots = (each.url for each in self._roots.in_turn())
        for root in filter(is_local, roots):
            try:
                within(root, partial(_make_missing, root, group), short_call_seconds(root))
            except (OSError, KafkaStorageError) as error:
                log.info("%s takes no heartbeats: %s", root, error)


def _make_missing(root: str, group: str) -> None:
    if os.path.isdir(root):
        make_folder(f"{root}/{FOLDER}")
        make_folder(f"{root}/{FOLDER}/{name_in_path(group)}")


def _folder(group: str) -> str:
    return f"{FOLDER}/{name_in_path(group)}"


def _path(group: str, member_id: MemberId) -> str:
    return f"{_folder(group)}/{name_in_path(member_id)}"


def _is_ours(name: str) -> bool:
    """Return whether a file is a heartbeat, and none that is being written under another name."""
    return _OURS.fullmatch(name) is not None


def name_in_path(name: str) -> str:
    """Return a name as part of a path: of two names never the same, on file systems that know no
    capitals, too."""
    readable = _NOT_HARMLESS.sub("_", name.lower())[:_READABLE_MAX]
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{readable}-{digest}"
