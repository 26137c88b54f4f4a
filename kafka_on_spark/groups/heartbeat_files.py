"""Heartbeats of groups' members: `groups/<group>/<member>` on the metadata roots.

Each member replaces its own files, on a majority of the roots; the others read a majority, and
compare each root with what it had before. Two majorities share a root, so a member that can't reach
one root still sees all that live. A group's name comes from people: in a path stands what is
harmless of it, and its digest.
"""

import hashlib
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.base.ids import MemberId
from kafka_on_spark.metadata.hint_file import HintRoots
from kafka_on_spark.metadata.quorum.voter_table import majority_of
from kafka_on_spark.store.deadlines import short_call_seconds, within
from kafka_on_spark.store.error_translation import storage_error
from kafka_on_spark.store.file_limits import SMALL_FILE_BYTES_MAX
from kafka_on_spark.store.local_changes import delete_empty_folder, make_folder
from kafka_on_spark.store.local_files import UnsafeFileError
from kafka_on_spark.store.root_identity import META_PROPERTIES
from kafka_on_spark.store.roots import RootFiles
from kafka_on_spark.store.storage_options import is_local

log = logging.getLogger(__name__)

FOLDER: Final = "groups"
_READABLE_MAX: Final = 40
_NOT_HARMLESS: Final = re.compile("[^a-z0-9_-]+")
_OURS: Final = re.compile("[a-z0-9_-]*-[0-9a-f]{32}")


class HeartbeatFiles:
    """Heartbeats in files of a cluster's metadata roots: written to the first that take them, and
    read from the first that answer, a majority each. Threads may share it."""

    def __init__(self, roots: HintRoots) -> None:
        self._roots = roots

    def beat(self, group: str, member_id: MemberId, count: int) -> None:
        """Replace a member's heartbeat by another, which `count` tells from the one before, on the
        first roots that take it, until a majority has; raise KafkaStorageError if fewer do."""
        heartbeat = f"{member_id} {count}\n".encode()
        failures: list[KafkaStorageError] = []
        roots = self._roots.in_turn()
        taken = 0
        for root in roots:
            try:
                _write(root, group, member_id, heartbeat)
            except KafkaStorageError as error:
                log.info("%s takes no heartbeats: %s", root.url, error)
                failures.append(error)
                self._roots.try_last(root.url)
            else:
                taken += 1
            if taken == majority_of(len(roots)):
                return
        raise failures[0]

    def contents(
        self, group: str, member_ids: Sequence[MemberId]
    ) -> list[Mapping[str, bytes | None]]:
        """Return some members' heartbeats, in order, by the URLs of the first roots that answer, a
        majority of all; None: no file. Each beat changes it on a majority. A root that has failed
        is asked no more.

        A member that has changed roots leaves its last one on the root before.

        Raises:
            KafkaStorageError: No majority answers: what fewer have is no evidence of a member that
                they do not have.
        """
        answering = self._roots.in_turn()
        needed = majority_of(len(answering))
        proven: set[str] = set()
        failures: list[KafkaStorageError] = []
        contents: list[Mapping[str, bytes | None]] = []
        for member_id in member_ids:
            found: dict[str, bytes | None] = {}
            for root in list(answering):
                if len(found) == needed:
                    break
                try:
                    found[root.url] = _read(root, _path(group, member_id), proven)
                except KafkaStorageError as error:
                    failures.append(error)
                    answering.remove(root)
                    self._roots.try_last(root.url)
            if len(found) < needed:
                raise failures[0]
            contents.append(found)
        return contents

    def stop(self, group: str, member_id: MemberId) -> None:
        """Remove a member's heartbeat, where it can be, and the folder if that was the last."""
        for root in self._roots.in_turn():
            self._delete(root, group, [name_in_path(member_id)])
            if is_local(root.url):
                self._remove_if_empty(root.url, group)

    def keep_only(self, group: str, member_ids: Sequence[MemberId]) -> None:
        """Remove the heartbeats of all but these, where it can be. That of a member about to join
        is removed as well, which its next heartbeat mends."""
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


def _read(root: RootFiles, path: str, proven: set[str]) -> bytes | None:
    """Return what is under a path of a root; `proven`: roots that are known to be there."""
    try:
        content = root.read(f"{root.url}/{path}", SMALL_FILE_BYTES_MAX)
    except UnsafeFileError:
        return None
    if content is None and root.url not in proven:
        # An empty mount point has no heartbeats, whoever lives.
        if root.read(f"{root.url}/{META_PROPERTIES}", SMALL_FILE_BYTES_MAX) is None:
            raise _not_there(root.url)
        proven.add(root.url)
    return content


def _write(root: RootFiles, group: str, member_id: MemberId, heartbeat: bytes) -> None:
    if is_local(root.url):
        within(root.url, partial(_make_missing, root.url, group), short_call_seconds(root.url))
    root.write(f"{root.url}/{_path(group, member_id)}", heartbeat, is_flushed=False)


def _make_missing(root: str, group: str) -> None:
    """Make the folders of a group on a local root: not on a mount point without its disk."""
    if not os.path.isfile(f"{root}/{META_PROPERTIES}"):
        raise _not_there(root)
    path = f"{root}/{_folder(group)}"
    if os.path.isdir(path):
        return
    try:
        make_folder(f"{root}/{FOLDER}")
        make_folder(path)
    except OSError as error:
        raise storage_error(error, f"make {path}") from error


def _not_there(root: str) -> KafkaStorageError:
    return KafkaStorageError(
        f"{root} is no metadata root now: it has no {META_PROPERTIES}, as if its disk were away"
    )


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
