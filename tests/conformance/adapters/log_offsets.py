"""Files 07: offsets by time, retention, deletion of records, and the bounds of one log."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kafka_on_spark.controller.log_start import delete_records
from kafka_on_spark.errors import (
    CorruptLogError,
    NotLeaderOrFollowerError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.epochs import epochs_of, record_epochs
from kafka_on_spark.log.fetch_checks import check_fetch
from kafka_on_spark.log.retention import retained_start
from kafka_on_spark.log.timestamps import SegmentPlace, segment_at_time, segment_of_max_time
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import MetadataBatch, Stamp
from tests.builders import KEY, TOPIC_ID, image_of, partition
from tests.conformance.adapters.epochs import listed, pair
from tests.conformance.logs import batch_of, commit, log_of, log_of_batches
from tests.conformance.running import Adapter, NotApplicableError

NOW_MS = 1_700_000_000_000


class ListOffsets(Adapter):
    """Kind list_offsets: one record a batch, each with its time."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        super().__init__(setup)
        if "log" not in setup and setup.get("hosted", True):
            raise NotApplicableError("other_log")
        self._log = log_of(
            [
                batch_of(offset, 1, epoch, time_ms=time)
                for offset, epoch, time in setup.get("log", ())
            ]
        )
        self._assigned = False

    def state(self) -> Mapping[str, Any]:
        return {
            "log_end_offset": self._log.log_end_offset,
            "log_start_offset": self._log.log_start_offset,
            "entries": listed(self._history()),
        }

    def _history(self) -> Any:
        # Kafka keeps the last epoch when the log is emptied; here that is what the fence says.
        keeps = self._assigned or not self._log.batches
        return epochs_of(self._log) if keeps else record_epochs(self._log)

    def on_empty_log(self) -> Any:
        return place_of(segment_at_time(log_of([]), 0))

    def list_offsets(self, timestamp: int | str) -> Any:
        if self.setup.get("hosted") is False:
            raise UnknownTopicOrPartitionError("no such partition")
        if timestamp == "MAX_TIMESTAMP":
            return place_of(segment_of_max_time(self._log))
        if timestamp in ("EARLIEST", "EARLIEST_LOCAL"):
            start = self._log.log_start_offset
            return self._bound(start, self._history().epoch_at(start))
        if timestamp == "LATEST":
            latest = self._history().latest
            return self._bound(
                self._log.log_end_offset, None if latest is None else latest.leader_epoch
            )
        if isinstance(timestamp, str):
            raise NotApplicableError("no_tiered_storage")
        return place_of(segment_at_time(self._log, timestamp * 1000))

    def _bound(self, offset: int, epoch: int | None) -> dict[str, Any]:
        return {"offset": offset, "timestamp": -1, "leader_epoch": epoch}

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        if start_offset != self._log.log_end_offset:
            raise NotApplicableError("epoch_begins_where_the_log_ends")
        change = operations.adopt(
            self._log, leader_epoch=LeaderEpoch(epoch), truncate_to=None, floor=Offset(0)
        )
        self._log = commit(self._log, change)
        self._assigned = True

    def truncate_to(self, offset: int) -> Any:
        if offset < self._log.log_start_offset:
            raise NotApplicableError("no_cut_below_the_log_start")
        if offset == self._log.log_start_offset and self._log.batches:
            raise NotApplicableError("fence_survives_a_cut")
        fence = self._log.leader_epoch
        batches = self._log.batches
        change = operations.adopt(
            self._log,
            leader_epoch=LeaderEpoch((fence or 0) + 1),
            truncate_to=Offset(offset),
            floor=Offset(0),
        )
        self._log = commit(self._log, change)
        kept = self._log.batches[-1].leader_epoch if self._log.batches else fence
        is_cut = len(self._log.batches) < len(batches)
        self._log = log_of(
            self._log.batches,
            start=self._log.log_start_offset,
            end=self._log.log_end_offset,
            fence=kept if is_cut and not self._assigned else fence,
        )
        history = self._history()
        return {
            "entry_count": len(history.entries),
            "latest_entry": pair(history.latest),
            "log_end_offset": self._log.log_end_offset,
        }

    def delete_records(self, before_offset: int) -> None:
        target = self._log.log_end_offset if before_offset == -1 else Offset(before_offset)
        self._log = commit(self._log, operations.advance_log_start(self._log, target))


def place_of(found: SegmentPlace | None) -> dict[str, Any]:
    """Return what was found as vectors give it."""
    if found is None:
        return {"offset": None}
    return {
        "offset": found.base_offset,
        "timestamp": found.segment.timestamp_max_us // 1000,
        "leader_epoch": found.leader_epoch,
    }


class Retention(Adapter):
    """Kind retention: Kafka's segments are batches here."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        super().__init__(setup)
        if "compact" in setup.get("cleanup_policy", "") and "delete" not in setup["cleanup_policy"]:
            raise NotApplicableError("no_compaction")
        times = setup.get("record_timestamps", "now")
        if "segments" in setup:
            pieces = setup["segments"]
        else:
            pieces = [[offset, 1] for offset in range(setup["log_end_offset"])]
        if not (times in ("now", "expired") or isinstance(times, int | list)):
            raise NotApplicableError("other_log")
        expired = setup.get("all_expired") or times == "expired"
        self._log = log_of(
            [
                batch_of(base, count, 0, time_ms=0 if expired else _time(times, place))
                for place, (base, count) in enumerate(pieces)
            ]
        )
        self._high_watermark = setup["high_watermark"]

    def state(self) -> Mapping[str, Any]:
        return {
            "log_start_offset": self._log.log_start_offset,
            # An emptied log has Kafka's one empty segment, which is no file here.
            "segments": max(1, len(self._log.batches)),
            "active_size": self._log.batches[-1].size_bytes if self._log.batches else 0,
        }

    def delete_old_segments(self) -> Any:
        start = retained_start(
            self._log,
            high_watermark=Offset(self._high_watermark),
            now_ms=NOW_MS,
            retention_ms=self.setup.get("retention_ms", -1),
            retention_bytes=self._bytes(self.setup.get("retention_bytes", -1)),
        )
        self._log = commit(self._log, operations.advance_log_start(self._log, start))
        return self.state()

    def _bytes(self, given: int | str) -> int:
        if isinstance(given, str):
            raise NotApplicableError("other_log")
        return given

    def for_hw_0_to_100_delete_old_segments(self) -> Any:
        holds = True
        for high_watermark in range(101):
            self._high_watermark = high_watermark
            self.delete_old_segments()
            holds = holds and self._log.log_start_offset <= high_watermark
        return {"invariant": "log_start_offset <= high_watermark" if holds else "broken"}

    def advance_log_start(self, offset: int) -> Any:
        image = image_of(partition("1", hw=self._high_watermark, hw_epoch=0))
        record = delete_records(image, KEY, Offset(offset))
        if record is not None and record.log_start_offset is not None:
            change = operations.advance_log_start(self._log, record.log_start_offset)
            self._log = commit(self._log, change)
        return {"error": "NONE", **self.state()}


def _time(given: Any, place: int) -> int:
    if isinstance(given, list):
        return int(given[place])
    return NOW_MS if given == "now" else int(given)


class DeleteRecords(Adapter):
    """Kind delete_records: the log start is decided in the metadata log, at once for all."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        super().__init__(setup)
        if "replica_log_start" in setup or "live" in setup:
            raise NotApplicableError("log_start_is_decided_once")
        if setup.get("hosted") is False:
            self._image = MetadataImage()
            return
        self._image = image_of(
            partition(
                " ".join(str(each) for each in range(1, setup["replicas"] + 1)),
                hw=setup["high_watermark"],
                hw_epoch=0,
                start=setup.get("log_start_offset", 0),
                leo=setup["log_end_offset"],
            ),
            configs={"cleanup.policy": setup.get("cleanup_policy", "delete")},
        )

    def delete_records(
        self, before_offset: int, cleanup_policy: str | None = None, role: str | None = None
    ) -> Any:
        if role == "follower":
            raise NotLeaderOrFollowerError("asked of a follower")
        image = self._image
        if cleanup_policy is not None:
            image = _with_configs(image, {"cleanup.policy": cleanup_policy})
        try:
            record = delete_records(image, KEY, Offset(before_offset))
        except UnknownTopicOrPartitionError:
            return {"error": "UNKNOWN_TOPIC_OR_PARTITION", "low_watermark": -1}
        if record is not None:
            batch = MetadataBatch(
                base_offset=image.offset, stamp=Stamp(time_ms=0), records=(record,)
            )
            self._image = self._image.replay(batch)
        return {"error": "NONE", "low_watermark": self.beginning_offset()}

    def beginning_offset(self) -> int:
        found = self._image.partition(KEY)
        assert found is not None
        return found.log_start_offset

    def consume_from(self, offset: int) -> Any:
        found = self._image.partition(KEY)
        assert found is not None
        return {"records": found.high_watermark - max(offset, found.log_start_offset)}

    def restart_all(self) -> None:
        """Nothing is kept but the log: the image is what its replay gives."""

    def log_start_on_all_replicas(self) -> int:
        return self.beginning_offset()

    def kill(self, replica: str) -> None:
        raise NotApplicableError("log_start_is_decided_once")

    def append(self, count: int) -> None:
        raise NotApplicableError("log_start_is_decided_once")

    def start(self, replica: str) -> None:
        raise NotApplicableError("log_start_is_decided_once")

    def follower_log_start(self, replica: int, offset: int) -> None:
        raise NotApplicableError("log_start_is_decided_once")

    def delete_result(self) -> None:
        raise NotApplicableError("log_start_is_decided_once")


def _with_configs(image: MetadataImage, configs: Mapping[str, str]) -> MetadataImage:
    topic = replace(image.topics[TOPIC_ID], configs=configs)
    return replace(image, topics={TOPIC_ID: topic})


class LogOffsets(Adapter):
    """Kind log_offsets: one log's bounds. A replica keeps no high watermark of its own."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        super().__init__(setup)
        if setup.get("cleanup_policy") == "compact":
            raise NotApplicableError("no_compaction")
        start, end = setup.get("log_start_offset", 0), setup.get("log_end_offset", 0)
        self._log = log_of_batches([(start, end - start, 0)], fence=0)

    def state(self) -> Mapping[str, Any]:
        return {
            "log_start_offset": self._log.log_start_offset,
            "log_end_offset": self._log.log_end_offset,
        }

    def append_follower(self, base_offset: int, count: int) -> Any:
        batches = log_of_batches([(base_offset, count, 0)]).batches
        try:
            change = operations.append_fetched(self._log, batches, leader_epoch=LeaderEpoch(0))
        except CorruptLogError:
            return {"error": "UNEXPECTED_APPEND_OFFSET"}
        self._log = self._log.apply(change)
        return {"first_offset": base_offset, "last_offset": base_offset + count - 1}

    def append_leader_plain(self, count: int) -> None:
        self._log = self._log.apply(
            operations.append_fetched(
                self._log,
                log_of_batches([(self._log.log_end_offset, count, 0)]).batches,
                leader_epoch=LeaderEpoch(0),
            )
        )

    def read(self, offset: int) -> Any:
        check_fetch(
            epochs_of(self._log),
            log_start_offset=self._log.log_start_offset,
            log_end_offset=self._log.log_end_offset,
            fetch_offset=Offset(offset),
            last_fetched_epoch=None,
        )
        return {"records": self._log.log_end_offset - offset}

    def truncate_to(self, offset: int) -> Any:
        if offset < self._log.log_start_offset:
            raise NotApplicableError("no_cut_below_the_log_start")
        change = operations.adopt(
            self._log, leader_epoch=LeaderEpoch(1), truncate_to=Offset(offset), floor=Offset(0)
        )
        cut = commit(self._log, change)
        self._log = log_of(cut.batches, start=cut.log_start_offset, end=cut.log_end_offset, fence=0)
        return self._bounds()

    def truncate_fully_and_start_at(self, offset: int) -> Any:
        change = operations.truncate_fully_and_start_at(
            self._log, Offset(offset), leader_epoch=LeaderEpoch(0), producers={}
        )
        self._log = commit(self._log, change)
        return self._bounds()

    def _bounds(self) -> dict[str, Any]:
        size = sum(batch.size_bytes for batch in self._log.batches)
        return {"log_end_offset": self._log.log_end_offset, "size": size}

    def append_follower_offsets(self, offsets: list[int]) -> Any:
        raise NotApplicableError("offsets_are_given_by_the_log")

    def append_records(self, keys: list[str | None]) -> Any:
        raise NotApplicableError("no_compaction")

    def high_watermark_is(self) -> int:
        raise NotApplicableError("replicas_keep_no_high_watermark")

    def maybe_increment_hw(self, offset: int) -> int:
        raise NotApplicableError("replicas_keep_no_high_watermark")

    def update_hw(self, offset: int) -> int:
        raise NotApplicableError("replicas_keep_no_high_watermark")

    def maybe_update_hw(self, offset: int) -> int:
        raise NotApplicableError("replicas_keep_no_high_watermark")
