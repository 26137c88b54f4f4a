"""The kind of file 07 about retention, and Kafka's rule of it.

The rule stands here, and not in the product: this version records the settings and obeys none. The
vectors hold the rule for the version that does.
"""

from dataclasses import replace

from kafka_on_spark.controller.partitions.log_start import raise_log_start
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.ids import Offset
from kafka_on_spark.log import operations
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
            batch_of(base, 0, count, timestamp_ms=time_ms)
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
        self._apply(apply_retention(self.world.image, KEY, self.world.leader, now_ms=NOW_MS))
        return self._about()

    def op_advance_log_start(self, offset):
        self._apply(raise_log_start(self.world.image, KEY, Offset(offset)))
        return self._about()

    def op_for_hw_0_to_100_delete_old_segments(self):
        is_held = True
        for high_watermark in range(101):
            registered = replace(self.world.partition, high_watermark=high_watermark)
            self.world.register(registered)
            self.op_delete_old_segments()
            is_held &= self.world.leader.log_start_offset <= high_watermark
        return {"invariant": "log_start_offset <= high_watermark" if is_held else "broken"}

    def _apply(self, result):
        self.world.commit(*result.records)
        change = operations.advance_log_start(self.world.leader, result.response)
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


def apply_retention(image, key, leader, *, now_ms):
    """Decide what retention.ms and retention.bytes delete of a log as its leader has it.

    Answer: the log start afterwards. A topic that is only compacted keeps everything.
    """
    settings = image.settings(key.topic_id)
    partition = image.partition(key)
    if "delete" not in settings.text("cleanup.policy").split(","):
        return ControllerResult([], partition.log_start_offset)
    start_offset = retained_from(
        leader,
        high_watermark=partition.high_watermark,
        now_ms=now_ms,
        retention_ms=_bound(settings.integer("retention.ms")),
        retention_bytes=_bound(settings.integer("retention.bytes")),
    )
    return raise_log_start(image, key, start_offset)


def retained_from(state, *, high_watermark, now_ms, retention_ms, retention_bytes):
    """Return the log start that retention leads to: it removes whole batches, the oldest first.

    A batch is removed while the batches after it have at least `retention_bytes`, or if its newest
    record is older than `retention_ms`; None sets no bound. A batch that is not wholly below the
    high watermark stays, and every batch after it. Source: UnifiedLog.deleteOldSegments.
    """
    kept = [batch for batch in state.batches if batch.end_offset > state.log_start_offset]
    surplus = sum(batch.size_bytes for batch in kept) - (retention_bytes or 0)
    start_offset = state.log_start_offset
    for batch in kept:
        surplus -= batch.size_bytes
        is_surplus = retention_bytes is not None and surplus >= 0
        is_expired = retention_ms is not None and _newest_ms(batch) < now_ms - retention_ms
        if batch.end_offset > high_watermark or not (is_surplus or is_expired):
            break
        start_offset = batch.end_offset
    return start_offset


def _newest_ms(batch):
    return max(segment.timestamp_max_us for segment in batch.segments) // 1000


def _bound(setting):
    """Return a retention setting's bound; -1 stands for none."""
    return None if setting < 0 else setting
