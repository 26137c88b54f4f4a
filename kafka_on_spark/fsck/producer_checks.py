"""I11: an append is in a replica's log once, a producer's sequences rise, and what is kept of a
producer whose headers went agrees with them.

Entries are compared with sequences, but not with producer epochs: a run is fenced on leaders only,
so a follower may take what its own old entry would refuse. An id that has expired and come back
begins anew: with whatever sequence somebody vouched for, above all epochs that it has expired with.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kafka_on_spark.fsck.batches import LoggedBatch, Stamp
from kafka_on_spark.fsck.findings import FindingList
from kafka_on_spark.log.producers import ProducerEntries, ProducerEntry


class _Removed(NamedTuple):
    """A producer's last append whose header went; its offset and digest, where they must agree."""

    sequence: int
    producer_epoch: int
    base_offset: int | None
    payload_digest: int | None


class ProducerReplay:
    """Replays the producers of one log's batches, in order. `expired_epochs`: with which epochs
    producer ids have expired that came back since.

    Attributes:
        number: The producer-state file that counts; 0: none.
    """

    def __init__(
        self, findings: FindingList, expired_epochs: Mapping[str, Sequence[int]] | None = None
    ) -> None:
        self.number = 0
        self._findings = findings
        self._expired_epochs = expired_epochs or {}
        self._removed: dict[str, _Removed] = {}
        self._last: dict[str, tuple[int, int]] = {}  # sequence and producer epoch
        self._uuids: dict[str, int] = {}  # base offset of each segment's batch

    def start_over(self, batches: Iterable[LoggedBatch], end_offset: int) -> None:
        """Forget the batches that were cut off at `end_offset`: `batches` are left."""
        self._last.clear()
        self._uuids.clear()
        for producer_id, removed in list(self._removed.items()):
            if removed.base_offset is None or removed.base_offset >= end_offset:
                del self._removed[producer_id]
        for batch in batches:
            self._remember(batch)

    def begin_again(self) -> None:
        """Forget where the appends stood whose headers went: the log is its leader's from now."""
        for producer_id, removed in self._removed.items():
            self._removed[producer_id] = removed._replace(base_offset=None, payload_digest=None)

    def name_file(self, number: int, version: int | None, *, is_checked: bool = True) -> None:
        """Check and take the number of the file that a commit names."""
        if is_checked and number < self.number:
            self._findings.add(
                "I11",
                f"the number of the producer-state file went back from {self.number} to {number}",
                version=version,
            )
        self.number = number

    def remove(self, batches: Sequence[LoggedBatch], version: int, *, is_named: bool) -> None:
        """Take batches whose headers went; `is_named`: with a commit that names another file."""
        stamped = [(batch, batch.stamp) for batch in batches if batch.stamp is not None]
        if stamped and not is_named and any(self._is_later(stamp) for _, stamp in stamped):
            self._findings.add(
                "I11",
                "headers of producers were removed, and no new producer state was named",
                version=version,
            )
        for batch, stamp in stamped:
            if self._is_later(stamp):
                self._removed[stamp.producer_id] = _Removed(
                    stamp.sequence,
                    stamp.producer_epoch,
                    batch.base_offset,
                    stamp.payload_digest,
                )

    def _is_later(self, stamp: Stamp) -> bool:
        known = self._removed.get(stamp.producer_id)
        if known is None:
            return True
        lives = [self._life(stamp.producer_id, each.producer_epoch) for each in (stamp, known)]
        return (lives[0], stamp.sequence) > (lives[1], known.sequence)

    def _life(self, producer_id: str, producer_epoch: int) -> int:
        """Return how often an id had expired before a run of it began."""
        return sum(each < producer_epoch for each in self._expired_epochs.get(producer_id, ()))

    def compare(self, entries: ProducerEntries, version: int) -> tuple[tuple[str, int], ...]:
        """Compare the file that counts with what was removed; return the producers it lacks, each
        with the newest epoch that was removed."""
        for producer_id, removed in self._removed.items():
            entry = entries.get(producer_id)
            if entry is None or self._is_of_later_life(producer_id, entry, removed):
                continue
            if not _agrees(entry, removed):
                self._findings.add(
                    "I11",
                    f"the producer state says of producer {producer_id!r} what its log never had:"
                    f" its sequence {removed.sequence} stood at offset {removed.base_offset}",
                    version=version,
                    offset=removed.base_offset,
                )
        lacked = sorted(self._removed.keys() - entries.keys())
        return tuple((each, self._removed[each].producer_epoch) for each in lacked)

    def _is_of_later_life(self, producer_id: str, entry: ProducerEntry, removed: _Removed) -> bool:
        lives = [self._life(producer_id, each.producer_epoch) for each in (entry, removed)]
        return lives[0] > lives[1]

    def batch(self, batch: LoggedBatch, version: int) -> None:
        """Check that the next batch is a new append, and remember it."""
        for uuid in batch.uuids:
            if uuid in self._uuids:
                self._findings.add(
                    "I11",
                    f"the segment {uuid} is in the log already, at {self._uuids[uuid]}",
                    version=version,
                    offset=batch.base_offset,
                )
        if batch.stamp is not None:
            self._check_stamp(batch, version)
        self._remember(batch)

    def _check_stamp(self, batch: LoggedBatch, version: int) -> None:
        assert batch.stamp is not None
        producer_id, producer_epoch, sequence, _ = batch.stamp
        life = self._life(producer_id, producer_epoch)
        last, last_epoch = self._last.get(producer_id, (-1, -1))
        removed = self._removed.get(producer_id)
        if life > self._life(producer_id, last_epoch):
            last = -1
        if removed is not None and life <= self._life(producer_id, removed.producer_epoch):
            last = max(last, removed.sequence)
        sentence = None
        if sequence <= last:
            sentence = f"sequence {sequence} of producer {producer_id!r} stands behind {last}"
        elif producer_epoch < last_epoch:
            sentence = (
                f"run {producer_epoch} of producer {producer_id!r} appended after run {last_epoch}"
            )
        if sentence is not None:
            self._findings.add("I11", sentence, version=version, offset=batch.base_offset)

    def _remember(self, batch: LoggedBatch) -> None:
        self._uuids.update(dict.fromkeys(batch.uuids, batch.base_offset))
        if batch.stamp is not None:
            self._last[batch.stamp.producer_id] = (batch.stamp.sequence, batch.stamp.producer_epoch)


def _agrees(entry: ProducerEntry, removed: _Removed) -> bool:
    """Return whether an entry may stand for an append that was removed, or a later one."""
    last = entry.last
    if last is None or last.sequence != removed.sequence or removed.base_offset is None:
        return entry.sequence >= removed.sequence
    return (last.base_offset, last.payload_digest) == (removed.base_offset, removed.payload_digest)
