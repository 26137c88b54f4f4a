"""Tells a root from another disk, by the cluster, broker and disk in Kafka's ``meta.properties``.

A root without that file never passes for an empty one: an unmounted disk looks the same.
"""

import json
import os
import time
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from errno import ENOSPC
from functools import partial
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

from kafka_on_spark.base.errors import (
    DuplicateBrokerRegistrationError,
    InconsistentClusterIdError,
    InvalidRootError,
    KafkaStorageError,
    RootAccessDeniedError,
    RootFullError,
)
from kafka_on_spark.base.ids import BrokerId, DirectoryId
from kafka_on_spark.store.deadlines import SHORT, within
from kafka_on_spark.store.error_translation import storage_error
from kafka_on_spark.store.local_files import SMALL_FILE_BYTES_MAX, UnsafeFileError
from kafka_on_spark.store.root_urls import BETWEEN, place_of
from kafka_on_spark.store.roots import RootFiles, StorageOptions, is_local

META_PROPERTIES: Final = "meta.properties"
GENERATION: Final = "cluster.generation"
METADATA_ROOTS: Final = "metadata.roots"


@dataclass(frozen=True, slots=True)
class RootIdentity:
    """The content of ``meta.properties`` on a root.

    Attributes:
        generation: Of the cluster, when people last went on without a majority of its metadata
            roots, and reached this root; 0: they never did.
        metadata_roots: Of the cluster, when they last changed and this root was reached: those that
            it obeys. Empty: an earlier version wrote it, and it obeys any of the cluster's id.
    """

    cluster_id: str
    broker_id: BrokerId
    directory_id: DirectoryId
    generation: int = field(default=0, compare=False)
    metadata_roots: tuple[str, ...] = field(default=(), compare=False)

    def encode(self) -> bytes:
        owner = f"broker.id={self.broker_id}"
        content = encode_properties(self.cluster_id, owner, self.directory_id)
        if self.metadata_roots:
            content += f"{METADATA_ROOTS}={json.dumps(self.metadata_roots)}\n".encode()
        return content + (f"{GENERATION}={self.generation}\n".encode() if self.generation else b"")


def read_identity(root: str, options: StorageOptions) -> RootIdentity | None:
    """Return which disk `root` is, or None if it has no ``meta.properties``."""
    return _identity_of(read_properties(root, options), root)


def write_obeyed(
    root: str,
    directory_id: DirectoryId,
    metadata_roots: Sequence[str],
    generation: int,
    options: StorageOptions,
    registered_voters: Collection[str] = (),
) -> None:
    """Write on a broker's root which metadata roots it obeys, and the cluster's generation:
    processes with a copy, or of an older generation, find them there.
    """
    found = check_directory(root, directory_id, options, registered_voters)
    generation = max(generation, found.generation)
    changed = replace(found, metadata_roots=tuple(metadata_roots), generation=generation)
    if changed.encode() != found.encode():
        RootFiles(root, options).write(f"{root}/{META_PROPERTIES}", changed.encode())


def read_properties(root: str, options: StorageOptions) -> bytes | None:
    """Return the bytes of a root's ``meta.properties``, or None if it has none."""
    path = f"{root}/{META_PROPERTIES}"
    try:
        return RootFiles(root, options).read(path, SMALL_FILE_BYTES_MAX)
    except UnsafeFileError as error:
        raise InvalidRootError(f"{error.message}: give a root of this cluster") from error


def _identity_of(content: bytes | None, root: str) -> RootIdentity | None:
    if content is None:
        return None
    try:
        fields = properties_of(content)
        return RootIdentity(
            fields["cluster.id"],
            BrokerId(int(fields["broker.id"])),
            DirectoryId(fields["directory.id"]),
            int(fields.get(GENERATION, 0)),
            tuple(map(str, json.loads(fields.get(METADATA_ROOTS, "[]")))),
        )
    except (KeyError, TypeError, ValueError):
        raise InvalidRootError(
            f"{root}/{META_PROPERTIES} is not a broker's: give a root of this cluster, or an"
            " empty folder"
        ) from None


def encode_properties(cluster_id: str, owner: str, directory_id: DirectoryId) -> bytes:
    """Return the bytes of a ``meta.properties``; `owner` is its line of a broker or of a voter."""
    lines = ("version=1", f"cluster.id={cluster_id}", owner, f"directory.id={directory_id}", "")
    return "\n".join(lines).encode()


def properties_of(content: bytes) -> dict[str, str]:
    return dict(line.split("=", 1) for line in content.decode().splitlines() if "=" in line)


CHECKED_MAX: Final = 4096

CHECKED: Final[set[tuple[str, DirectoryId, str, tuple[str, ...]]]] = set()
"""The roots that this process has checked since it opened a cluster, by all that `check_directory`
is given (of options their key): to check one for each append would be a request more."""


def check_directory(
    root: str,
    directory_id: DirectoryId,
    options: StorageOptions,
    registered_voters: Collection[str] = (),
) -> RootIdentity:
    """Check that `root` is the disk that the image names, and obeys one of `registered_voters`, if
    these are given: those that its metadata log ever had, since a broker that was away while voters
    changed names former ones. A copy of the cluster under the original's URLs does not pass once
    all of the original's metadata roots were replaced.

    Another disk or none means that the disk is away, not lost: it may be unmounted, and its
    replicas count as they are when it is back.

    Raises:
        KafkaStorageError: It is another disk or none, or it does not answer.
        RootAccessDeniedError: It obeys other metadata roots.
    """
    content = RootFiles(root, options).read(f"{root}/{META_PROPERTIES}", SMALL_FILE_BYTES_MAX)
    found = identity_on(content, root, directory_id)
    check_is_obeyed(found, root, registered_voters)
    return found


def check_is_obeyed(found: RootIdentity, root: str, registered_voters: Collection[str]) -> None:
    """Check that a root of this identity obeys one of the voters that a metadata log ever had."""
    if not found.metadata_roots or not registered_voters:
        return
    ours = [voter.split(":", 2)[2] for voter in registered_voters]  # id:directory:root
    if {place_of(each) for each in ours}.isdisjoint(map(place_of, found.metadata_roots)):
        raise RootAccessDeniedError(
            f"the root {root} obeys the metadata roots {BETWEEN.join(found.metadata_roots)}, and"
            f" not {BETWEEN.join(ours)}, which are a copy or were given up: open the cluster at the"
            " former, or make a copy a cluster of its own, by `cluster --fork`"
        )


def is_there(root: str) -> bool:
    """Return whether there is a root, of any cluster; a store always is."""
    return not is_local(root) or within(root, partial(os.path.lexists, root), SHORT)


def identity_on(content: bytes | None, root: str, directory_id: DirectoryId) -> RootIdentity:
    """Return what the bytes of a root's ``meta.properties`` say of the disk `directory_id`."""
    try:
        found = _identity_of(content, root)
    except InvalidRootError as error:
        raise KafkaStorageError(error.message) from error
    if found is None and not is_there(root):
        raise KafkaStorageError(f"{root} does not exist", expected=directory_id)
    if found is None or found.directory_id != directory_id:
        raise KafkaStorageError(
            f"{root} is not the disk it was",
            expected=directory_id,
            found=None if found is None else found.directory_id,
        )
    return found


def check_owner(found: RootIdentity, root: str, cluster_id: str, broker_id: BrokerId) -> None:
    """Check that a root's identity is this broker's."""
    if found.cluster_id != cluster_id:
        raise InconsistentClusterIdError(
            f"the root {root} belongs to cluster {found.cluster_id}, not to {cluster_id}: give"
            " each cluster roots of its own"
        )
    if found.broker_id != broker_id:
        raise DuplicateBrokerRegistrationError(
            f"the root {root} belongs to broker {found.broker_id}, not to {broker_id}, of cluster"
            f" {found.cluster_id}: give each broker a root of its own"
        )


PROBED_SECONDS: Final = 1.5

_probes: Final[deque[tuple[float, str]]] = deque()
"""The objects by which this process probes stores, and when each was put last: a store may refuse
more than one put a second of one object. Global, as what is on a store is."""


def _probe_name() -> str:
    """Return an object that this process has put before, unless that was just now."""
    now = time.monotonic()
    try:
        at, name = _probes.popleft()
    except IndexError:
        at, name = now, ""
    if not name or now - at < PROBED_SECONDS:
        if name:
            _probes.appendleft((at, name))
        name = f"_probe-{uuid4().hex}"
    _probes.append((now, name))
    return name


def probe_root(
    root: str, expected: DirectoryId, options: StorageOptions, size_bytes: int = 0
) -> None:
    """Check that a broker's root answers, is the expected disk, and takes writes; with
    `size_bytes`, also one of that size.

    Raises:
        RootFullError: It is the disk, and has no room.
        RootReadOnlyError: It is the disk, and is read-only.
        KafkaStorageError: It does not answer, or is another disk.
    """
    check_directory(root, expected, options)
    if is_local(root) and size_bytes:
        _check_room(root, size_bytes)
    if is_local(root) or size_bytes:
        put_and_delete(root, options, size_bytes)
    else:  # a request less; the next probe replaces it, and once there is none, upkeep deletes it
        RootFiles(root, options).write(f"{root}/{_probe_name()}", b"probe")


def put_and_delete(root: str, options: StorageOptions, size_bytes: int = 0) -> None:
    files = RootFiles(root, options)
    path = f"{root}/_probe-{uuid4().hex}"
    # No file system makes random bytes smaller, and each has found room for them once they are
    # flushed. A small write is not flushed: that would wait for other writes.
    content = os.urandom(size_bytes) or b"probe"
    files.write(path, content, is_flushed=size_bytes > 0)
    files.delete_file(path)


def _check_room(root: str, size_bytes: int) -> None:
    """Check that a write of that size may have room, before it takes the last of it from others."""
    try:
        found = within(root, partial(os.statvfs, root), SHORT)
    except OSError as error:
        raise storage_error(error, f"look for room on {root}") from error
    if found.f_bfree * found.f_frsize < size_bytes:
        raise RootFullError(f"can't write {size_bytes} bytes to {root}: {os.strerror(ENOSPC)}")


def root_now_ms(root: str, expected: DirectoryId, options: StorageOptions) -> int:
    """Return the time of a broker's root, ms since 1970 UTC. It stands beside the clock of the
    process that decides, so that one wrong clock deletes nothing.
    """
    check_directory(root, expected, options)
    return now_ms_at(root, options)


def now_ms_at(root: str, options: StorageOptions) -> int:
    """Return the time of a root, ms since 1970 UTC: on S3 that of its last answer and what has
    passed since, elsewhere that of a file written for it. Stores tell whole seconds, which are
    never ahead.

    Raises:
        KafkaStorageError: It does not answer, takes no writes, or tells no time.
    """
    if urlsplit(root).scheme in ("s3", "s3a"):
        from kafka_on_spark.store.s3_files import told_ms

        now_ms = told_ms(urlsplit(root).netloc)
        if now_ms is not None:
            return now_ms
    files = RootFiles(root, options)
    path = f"{root}/_probe-{uuid4().hex}"
    # Empty, since a full disk takes that; unflushed, since a flush would wait for other writes.
    files.write(path, b"", is_flushed=False)
    try:
        now_ms = files.time_ms(path)
    finally:
        with suppress(KafkaStorageError):
            files.delete_file(path)
    if now_ms is None:
        raise KafkaStorageError(f"the root {root} does not keep what is written to it")
    return now_ms
