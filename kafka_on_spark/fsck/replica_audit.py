"""I1, I15, I27: the audit of one replica, with its segments if deep. Runs in a task.

It answers with a trace and never raises for what a root or a table does: a part that can't be read
is a finding, and the audit of other replicas goes on. One table's history is in memory at a time.
Every read is of the files as they are, and nothing is cached: what a process remembers of a table
does not count here. Never writes.

Segments take long to read, and meanwhile some may be merged into others and deleted. So a segment
that is missing is damage only if the log, read on, names it still; else the audit goes on with
those that it names by then.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_on_spark.base.errors import (
    CorruptLogError,
    KafkaOnSparkError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import ChainDigest, Offset
from kafka_on_spark.fsck.findings import Finding, FindingList
from kafka_on_spark.fsck.replica import ReplicaReplay
from kafka_on_spark.fsck.trace import ReplicaTrace, is_merged
from kafka_on_spark.log.batch import Border, epoch_in_name
from kafka_on_spark.log.hashing import key_hashes
from kafka_on_spark.log.merging import BATCH_ROWS, Content, content_of, decode_borders, typed
from kafka_on_spark.log.producer_files import read_producers
from kafka_on_spark.log.producer_state import producers_file_name
from kafka_on_spark.log.segments import (
    APPEND_TIME,
    SEGMENT_SCHEMA,
    between_deltas,
    check_no_link,
    digest_of,
)
from kafka_on_spark.log.state import ProducerEntries, ReplicaAddress
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.store import arrow_compute as pc
from kafka_on_spark.store.delta.delta_files import FileEntry, TableDamage, TableStep
from kafka_on_spark.store.delta.table_history import table_steps
from kafka_on_spark.store.error_translation import as_storage_errors, parsing
from kafka_on_spark.store.local_files import PRODUCERS_BYTES_MAX, SEGMENT_BYTES_MAX, UnsafeFileError
from kafka_on_spark.store.parquet_files import read_parquet
from kafka_on_spark.store.root_identity import check_directory
from kafka_on_spark.store.roots import RootFiles, StorageOptions

KEYS_AT_ONCE: Final = 2**20
"""Keys that are held together while a log is looked through for keys that stand twice: about 60
MB. A log of more records is read as often as that takes, each time for other keys."""


class MissingSegmentError(CorruptLogError):
    """A segment is not there: damage, if the log still names it."""


def check_content(
    content: bytes, file: FileEntry, borders: Sequence[int]
) -> tuple[tuple[Content, ...], tuple[Border, ...]]:
    """Return what a segment's records between each two of `borders` amount to, and the borders that
    it keeps of what was merged into it; raise CorruptLogError if it is not what its name says."""
    with parsing("it"):
        table = read_parquet(content, file.path, verifies_pages=True)
        flaw = _content_flaw(table, file)
        if flaw is not None:
            raise CorruptLogError(flaw)
        return _contents(table, file, borders), _borders(content, file)


def _content_flaw(table: pa.Table, file: FileEntry) -> str | None:
    if table.schema.names != SEGMENT_SCHEMA.names:
        return f"it has the columns {', '.join(table.schema.names)}"
    if table.num_rows != file.record_count:
        return f"it has {table.num_rows} records, its statistics say {file.record_count}"
    deltas = table.column("offset_delta").to_numpy()
    if is_merged(file):
        flaw = _merged_flaw(table, deltas, file)
        if flaw is not None or not len(deltas):
            return flaw
    elif not np.array_equal(deltas, np.arange(table.num_rows)):
        return "its records are not numbered from 0 on"
    elif file.timestamp_min_us == file.timestamp_max_us == file.time_ms * 1000:
        return None  # LogAppendTime: records have the time of the commit, not their own
    span = pc.min_max(table.column("timestamp").cast(pa.int64()))
    if (span["min"].as_py(), span["max"].as_py()) != (file.timestamp_min_us, file.timestamp_max_us):
        return "its timestamps are not what its statistics say"
    return None


def _merged_flaw(table: pa.Table, deltas: npt.NDArray[np.generic], file: FileEntry) -> str | None:
    """Return what is wrong with where a merged segment's records are, or with what they are."""
    base_offset, end_offset = _number(file, "base_offset"), _number(file, "end_offset")
    is_inside = not len(deltas) or 0 <= deltas[0] <= deltas[-1] < end_offset - base_offset
    if not is_inside or not (np.diff(deltas) > 0).all():
        return "its records do not lie in the offsets that it covers"
    if content_of(table, base_offset).digest != _number(file, "content_digest"):
        return "its records have not the content digest in its header"
    return None


def _number(file: FileEntry, name: str) -> int:
    return int(file.values.get(name) or 0)


def _borders(content: bytes, file: FileEntry) -> tuple[Border, ...]:
    if not is_merged(file):
        return ()
    base_offset, end_offset = _number(file, "base_offset"), _number(file, "end_offset")
    own = Border(Offset(end_offset), ChainDigest(file.values.get("chain_digest") or ""))
    return decode_borders(content, file.path, Offset(base_offset), own)


def _contents(table: pa.Table, file: FileEntry, borders: Sequence[int]) -> tuple[Content, ...]:
    base_offset = _number(file, "base_offset")
    has_append_time = _number(file, "timestamp_type") == APPEND_TIME and not is_merged(file)
    common_us = file.time_ms * 1000 if has_append_time else None
    contents = [Content()] * (len(borders) - 1)
    for records in table.to_batches(BATCH_ROWS):
        whole = typed(records, common_us)
        for place, (first, end) in enumerate(pairwise(borders)):
            wanted = between_deltas(whole, first - base_offset, end - base_offset)
            if wanted.num_rows:
                contents[place] = contents[place].plus(wanted, base_offset)
    return tuple(contents)


def compaction_flaws(
    files: Sequence[FileEntry],
    read: Callable[[FileEntry], bytes],
    *,
    compacted_below: Offset,
    tombstones_below: Offset,
) -> Iterator[tuple[int, str]]:
    """Yield what in sound segments shows that they are not compacted, in memory that is bounded:
    the offset of a record that should not be there, and why. Which records are missing can't be
    seen in what is left of a log."""
    below = [file for file in files if _number(file, "base_offset") < compacted_below]
    count = sum(file.record_count or 0 for file in below)
    parts = -(-count // KEYS_AT_ONCE)
    for part in range(parts):
        columns = [_keys(read(file), file, part, parts, compacted_below) for file in below]
        yield from _key_flaws(columns, compacted_below, tombstones_below)


Columns = tuple[npt.NDArray[np.generic], ...]


def _keys(
    content: bytes,
    file: FileEntry,
    part: int,
    parts: int,
    compacted_below: Offset,
) -> Columns:
    """Return, of one part of the keys, their hashes in two halves, the offsets, whether there is a
    key, and whether it is a tombstone."""
    table = read_parquet(content, file.path, columns=("offset_delta", "key", "value"))
    deltas = table.column("offset_delta").to_numpy().astype(np.int64)
    offsets = deltas + _number(file, "base_offset")
    keys, values = table.column("key").combine_chunks(), table.column("value")
    high, low = key_hashes(keys)
    has_key = keys.is_valid().to_numpy(zero_copy_only=False)
    wanted = (high % np.uint64(parts) == part) & (offsets < compacted_below)
    columns = (high, low, offsets, has_key, values.is_null().to_numpy())
    return tuple(each[wanted] for each in columns)


def _key_flaws(
    files: Sequence[Columns], compacted_below: Offset, tombstones_below: Offset
) -> Iterator[tuple[int, str]]:
    """Yield the records that are wrong alone, or by the one before them of the same key."""
    high, low, offsets, has_key, is_tombstone = map(np.concatenate, zip(*files, strict=True))
    order = np.lexsort((offsets, low, high))
    is_same = (np.diff(high[order]) == 0) & (np.diff(low[order]) == 0)
    is_again = is_same & has_key[order[1:]] & has_key[order[:-1]]
    before = np.full(len(order), -1)
    before[order[1:][is_again]] = offsets[order[:-1][is_again]]
    is_kept = is_tombstone & (offsets < tombstones_below)
    for place in np.flatnonzero(~has_key | is_kept | (before >= 0)):
        offset = int(offsets[place])
        if not has_key[place]:
            yield offset, f"the record at {offset}, below {compacted_below}, has no key"
            continue
        if before[place] >= 0:
            sentence = f"stands at {before[place]} too, below {compacted_below}"
            yield offset, f"the key of the record at {offset} {sentence}"
        if is_kept[place]:
            yield offset, f"a tombstone is kept at {offset}, below {tombstones_below}"


READS_MAX: Final = 20
"""How often the log is read on for files that are gone, at most: they stay there for
`file.delete.delay.ms`, and most are read by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOrder:
    """Which replica to audit.

    Attributes:
        is_deep: The audit also reads its segments and all of its checkpoints.
        borders: Offsets between which the records in its segments are added up.
        expired_epochs: With which epochs producer ids have expired that came back since.
    """

    address: ReplicaAddress
    is_in_sync: bool
    is_deep: bool
    borders: tuple[int, ...]
    expired_epochs: Mapping[str, Sequence[int]] = field(default_factory=dict)


def audit_task(order: AuditOrder, worker: Worker) -> ReplicaTrace:
    return ReplicaAudit(order, worker.options).run()


class ReplicaAudit:
    """Reads one replica: the steps of its log, the producer state, each segment once."""

    def __init__(self, order: AuditOrder, options: StorageOptions) -> None:
        self._order = order
        self._address = order.address
        self._options = options
        self._files = RootFiles(order.address.root, options)
        self._replay = ReplicaReplay(order.address, order.expired_epochs)
        self._version = -1
        self._contents: dict[str, tuple[Content, ...] | None] = {}  # by path; None: it has a flaw
        self._size_bytes = 0
        self._uncompacted: tuple[Finding, ...] = ()

    def run(self) -> ReplicaTrace:
        findings, contents = self._replay.findings, None
        forgotten: tuple[tuple[str, int], ...] = ()
        try:
            self._catch_up()
            forgotten = self._compare_producers()
            if self._order.is_deep:
                contents = self._read_segments()
        except ReplicaLostError as error:
            # Its disk is there, and its table is not.
            invariant = "I1" if self._order.is_in_sync else None
            findings.add(invariant, f"the replica is lost: {error.message}")
        except KafkaOnSparkError as error:
            findings.add(None, f"the replica could not be checked: {error.message}")
            return replace(self._replay.trace(), is_read=False)
        trace = self._replay.trace()
        trace.findings += self._uncompacted
        trace.forgotten_producers, trace.contents = forgotten, contents
        trace.read_files, trace.read_bytes = len(self._contents), self._size_bytes
        return trace

    def _catch_up(self) -> None:
        """Replay the steps that have come since the last time; deep: with every checkpoint."""
        address, first = self._address, self._version + 1
        check_directory(address.root, address.directory_id, self._options)
        check_no_link(address)
        files, folder, is_deep = self._files, address.folder, self._order.is_deep
        try:
            with as_storage_errors(f"read the table at {folder}", self._options):
                for step in table_steps(
                    files, folder, has_all_checkpoints=is_deep, from_version=first
                ):
                    self._take(step, first)
        finally:
            # What was missing while the disk was away is not missing.
            check_directory(address.root, address.directory_id, self._options)

    def _take(self, step: TableStep, first: int) -> None:
        if step.version < first:
            return  # a hint at a checkpoint may name whatever version
        self._replay.take(step)
        if not (isinstance(step, TableDamage) and step.is_checkpoint):
            self._version = step.version

    def _compare_producers(self) -> tuple[tuple[str, int], ...]:
        """Compare the producer state with the log's history; return the producers that it lacks."""
        file, folder = self._replay.counters.producers, self._address.folder
        entries: ProducerEntries = {}
        try:
            if file.number:
                with as_storage_errors(f"read the producer state at {folder}", self._options):
                    entries = read_producers(
                        lambda name: self._files.read(f"{folder}/{name}", PRODUCERS_BYTES_MAX),
                        self._address.replica_uuid,
                        file,
                    )
        except CorruptLogError as error:
            self._catch_up()
            if self._replay.counters.producers == file:  # else it may be cleaned by now
                path = producers_file_name(file.number)
                self._replay.findings.add("I15", error.message, path=path)
            return ()
        return self._replay.producers.compare(entries)

    def _read_segments(self) -> tuple[Content, ...] | None:
        """Read every segment that the log names, and check what they hold together; return their
        records between each two borders; None: they are damaged."""
        for _ in range(READS_MAX):
            entries = list(self._replay.log.entries.values())
            try:
                for entry in entries:
                    if entry.path not in self._contents:
                        self._read_segment(entry)
                contents = self._contents_of(entries)
                if contents is not None:
                    self._check_compaction(entries)
                return contents
            except MissingSegmentError:
                continue  # it is gone: the log is further than it was, or it is damage to report
        raise KafkaStorageError(
            f"segments were merged and deleted while they were read, {READS_MAX} times: try again"
        )

    def _read_segment(self, entry: FileEntry) -> None:
        """Read a segment, and add a finding if it is damaged; raise MissingSegmentError if it is
        gone, and the log names it no more."""
        contents = None
        try:
            contents, ends = check_content(self._content(entry), entry, self._order.borders)
        except CorruptLogError as error:
            if isinstance(error, MissingSegmentError):
                self._catch_up()
                if entry.path not in self._replay.log.entries:
                    raise
            base = entry.values.get("base_offset")
            is_offset = base is not None and base.isdecimal() and len(base) < 20
            offset = int(base) if base is not None and is_offset else None
            sentence = f"the segment {entry.path}: {error.message}"
            self._replay.findings.add("I15", sentence, path=entry.path, offset=offset)
        else:
            if is_merged(entry):
                compacted_below = self._replay.compaction.compacted_below
                self._replay.log.check_borders(entry.path, ends, compacted_below)
        self._contents[entry.path] = contents
        self._size_bytes += entry.size_bytes

    def _contents_of(self, entries: Sequence[FileEntry]) -> tuple[Content, ...] | None:
        found = [self._contents[each.path] for each in entries]
        whole = [each for each in found if each is not None]
        if len(whole) < len(found):
            return None
        none = [Content()] * (len(self._order.borders) - 1)
        return tuple(reduce(Content.with_more, each) for each in zip(none, *whole, strict=True))

    def _check_compaction(self, entries: Sequence[FileEntry]) -> None:
        progress = self._replay.compaction
        if not progress.finished_below:
            return
        flaws = compaction_flaws(
            entries,
            self._content_again,
            compacted_below=progress.finished_below,
            # While it is at work, tombstones are there still.
            tombstones_below=progress.tombstones_below if progress.is_finished else Offset(0),
        )
        found = FindingList(self._replay.findings.place)
        for offset, sentence in flaws:
            found.add("I27", sentence, offset=offset)
        self._uncompacted = found.all()

    def _content_again(self, file: FileEntry) -> bytes:
        try:
            return self._content(file)
        except CorruptLogError as error:
            del self._contents[file.path]
            self._catch_up()
            raise MissingSegmentError(error.message) from error

    def _content(self, file: FileEntry) -> bytes:
        """Return a segment's bytes, whose digest is right."""
        if epoch_in_name(file.path) is None:
            raise CorruptLogError("it is no segment by its name, and was not read")
        path = f"{self._address.folder}/{file.path}"
        try:
            with as_storage_errors(f"read {path}", self._options):
                content = self._files.read(path, min(file.size_bytes, SEGMENT_BYTES_MAX))
        except UnsafeFileError as error:
            raise CorruptLogError(error.message) from error
        if content is None:
            raise MissingSegmentError("it is missing")
        if len(content) != file.size_bytes:
            raise CorruptLogError(f"it has {len(content)} bytes, the log says {file.size_bytes}")
        if digest_of(content) != file.path.rsplit("-", 1)[-1].removesuffix(".parquet"):
            raise CorruptLogError("its bytes have not the digest in its name")
        return content
