"""I11: an append is in a replica's log once, and a producer's sequences rise.

Counters that retention leaves are compared with sequences, but not with producer epochs: a run is
fenced on leaders only, so a follower may take what its own old counter would refuse.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kafka_on_spark.audit.batches import LoggedBatch
from kafka_on_spark.audit.findings import FindingList

_SEQUENCE: Final = "producer/"


class ProducerReplay:
    """Replays the producers of one log's batches, in order."""

    def __init__(self, findings: FindingList) -> None:
        self._findings = findings
        self._counters: dict[str, int] = {}
        self._last: dict[str, tuple[int, int]] = {}  # sequence and producer epoch
        self._uuids: dict[str, int] = {}  # base offset of each segment's batch

    def start_over(self, batches: Iterable[LoggedBatch]) -> None:
        """Forget the batches that were cut off: `batches` are left."""
        self._last.clear()
        self._uuids.clear()
        for batch in batches:
            self._remember(batch)

    def counters(
        self, counters: Mapping[str, int], *, is_checked: bool, version: int | None = None
    ) -> None:
        """Check and take the counters that a commit sets."""
        for name, sequence in counters.items():
            if not name.startswith(_SEQUENCE):
                continue
            producer_id = name.removeprefix(_SEQUENCE)
            known = self._counters.get(producer_id, sequence)
            if is_checked and sequence < known:
                self._findings.add(
                    "I11",
                    f"the sequence remembered of producer {producer_id!r} went back from {known}"
                    f" to {sequence}",
                    version=version,
                )
            self._counters[producer_id] = sequence

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
        last, last_epoch = self._last.get(producer_id, (-1, -1))
        last = max(last, self._counters.get(producer_id, -1))
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
