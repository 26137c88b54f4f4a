"""The kind of file 07 about retention."""

from dataclasses import replace

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.controller.log_start import RetentionReport, raise_log_start, retain
from kafka_on_spark.log import operations
from kafka_on_spark.log.retention import limits_of, retained
from tests.builders import KEY
from tests.conformance.logs import batch_of, log_of
from tests.conformance.runner import Adapter
from tests.conformance.world import World

NOW_MS = 1_700_000_000_000


class Retention(Adapter):
    """Kafka's segment is our batch: what retention takes whole. Sizes are in records.

    Kafka keeps an empty active segment in an emptied log; we keep none, and count it.
    """

    def __init__(
        self,
        high_watermark,
        segments=None,
        log_end_offset=0,
        retention_ms=None,
        retention_bytes=None,
        record_timestamps="now",
        all_expired=False,
        cleanup_policy="delete",
        note=None,
    ):
        listed = segments or [[each, 1] for each in range(log_end_offset)]
        timestamps = _timestamps(0 if all_expired else record_timestamps, len(listed))
        batches = [
            batch_of(base, 0, count, timestamp_ms=time_ms, appended_at_ms=NOW_MS)
            for (base, count), time_ms in zip(listed, timestamps, strict=True)
        ]
        configs = {
            "cleanup.policy": cleanup_policy,
            "retention.ms": -1 if retention_ms is None else retention_ms,
            "retention.bytes": -1 if retention_bytes is None else _records(retention_bytes),
        }
        self.world = World(
            log_of(batches, fence=0),
            high_watermark=high_watermark,
            now_ms=NOW_MS,
            configs=configs,
        )

    def op_delete_old_segments(self):
        look = look_at(self.world, NOW_MS)
        if look is not None:
            self._apply(retain(self.world.image, [look]).records)
        return self._about()

    def op_advance_log_start(self, offset):
        raised = raise_log_start(self.world.image, KEY, Offset(offset), "as the vector says")
        self._apply(raised.records)
        return self._about()

    def op_for_hw_0_to_100_delete_old_segments(self):
        is_held = True
        for high_watermark in range(101):
            registered = replace(self.world.partition, high_watermark=high_watermark)
            self.world.register(registered)
            self.op_delete_old_segments()
            is_held &= self.world.leader.log_start_offset <= high_watermark
        return {"invariant": "log_start_offset <= high_watermark" if is_held else "broken"}

    def _apply(self, records):
        self.world.commit(*records)
        start_offset = self.world.partition.log_start_offset
        change = operations.advance_log_start(self.world.leader, start_offset)
        if change is not None:
            self.world.leader = self.world.leader.apply(change)

    def _about(self):
        batches = self.world.leader.batches
        return {
            "segments": max(1, len(batches)),
            "log_start_offset": self.world.leader.log_start_offset,
            "active_size": batches[-1].record_count if batches else 0,
        }

    def expected(self):
        return self._about()


def _timestamps(given, count):
    if isinstance(given, list):
        return given
    return [NOW_MS if given == "now" else int(given)] * count


def _records(given):
    """Return a size as a number of records: the leading number of "10 records"."""
    return int(str(given).split()[0])


def look_at(world, now_ms):
    """Return what a task sees in the leader's log; None where retention has no limits."""
    limits = limits_of(world.image.settings(KEY.topic_id))
    partition = world.partition
    if limits is None:
        return None
    found = retained(
        world.leader,
        limits,
        log_start_offset=partition.log_start_offset,
        high_watermark=partition.high_watermark,
        now_ms=now_ms,
    )
    return RetentionReport(
        key=KEY,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        log_start_offset=partition.log_start_offset,
        limits=limits,
        now_ms=now_ms,
        found=found,
    )
