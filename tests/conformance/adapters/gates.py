"""Files 04: what a replica answers to requests, as far as this product has them."""

from collections.abc import Mapping
from typing import Any

from kafka_on_spark.errors import CorruptLogError
from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.timestamps import segment_at_time
from tests.conformance.adapters.isr import Leader
from tests.conformance.adapters.log_offsets import place_of
from tests.conformance.logs import batch_of, log_of
from tests.conformance.running import Adapter, NotApplicableError


class Gates(Adapter):
    """Kind gates: what a replica answers to requests, as far as this product has them."""

    def __new__(cls, setup: Mapping[str, Any]) -> Any:
        if setup.get("role") == "follower" and "leader_epoch" not in setup:
            return _FollowerLog(setup)
        if "timestamps" in setup:
            return _Offsets(setup)
        if "open_transaction" in setup:
            raise NotApplicableError("no_transactions")
        if "hosted" in setup or "stray_log" in setup or "partitions" in setup:
            raise NotApplicableError("commands_are_the_register")
        return _GateLeader(setup)


class _GateLeader(Leader):
    def list_offsets(self, timestamp: int | str, isolation: str | None = None) -> Any:
        if timestamp != "LATEST":
            raise NotApplicableError("the_register_has_the_true_high_watermark")
        registration = self._partition()
        end = self._end if isolation is None else registration.high_watermark
        return {"offset": end, "leader_epoch": registration.leader_epoch}

    def append_follower(self, base_offset: int, count: int) -> None:
        raise NotApplicableError("commands_are_the_register")


class _FollowerLog(Adapter):
    """A follower that takes batches."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        super().__init__(setup)
        start = setup["log_start_offset"]
        self._log = log_of([], start=start, end=setup["log_end_offset"], fence=0)

    def append_follower(self, base_offset: int, count: int) -> Any:
        whole = log_of([batch_of(base_offset, count, 0)]).batches
        error = "NONE"
        try:
            change = operations.append_fetched(self._log, whole, leader_epoch=LeaderEpoch(0))
            self._log = self._log.apply(change)
        except CorruptLogError:
            error = "UNEXPECTED_APPEND_OFFSET"
        begins = (
            self._log.batches[0].base_offset if self._log.batches else self._log.log_start_offset
        )
        return {
            "error": error,
            "log_end_offset": self._log.log_end_offset,
            # The start stands in the register; that the first batch begins below it shows here.
            "log_start_offset": min(begins, self._log.log_start_offset),
        }


class _Offsets(Adapter):
    """Offsets by time, for readers and for replicas."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        super().__init__(setup)
        if None in setup["timestamps"][-1:]:
            raise NotApplicableError("other_log")
        self._log = log_of(
            [
                batch_of(place, 1, 0, time_ms=time or 0)
                for place, time in enumerate(setup["timestamps"])
            ]
        )

    def list_offsets(self, timestamp: int | str, isolation: str | None = None) -> Any:
        high_watermark = self.setup["high_watermark"]
        if high_watermark < self.setup["leader_epoch_start_offset"]:
            raise NotApplicableError("the_register_has_the_true_high_watermark")
        end = self._log.log_end_offset if isolation is None else Offset(high_watermark)
        if timestamp == "LATEST":
            return {"error": "NONE", "offset": end}
        if timestamp in ("EARLIEST", "EARLIEST_LOCAL"):
            return {"error": "NONE", "offset": self._log.log_start_offset}
        if isinstance(timestamp, str):
            raise NotApplicableError("no_tiered_storage")
        found = segment_at_time(self._log, timestamp * 1000)
        return place_of(None if found is None or found.base_offset >= end else found)
