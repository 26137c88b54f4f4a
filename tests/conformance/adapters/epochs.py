"""Files 01: leaderships of a log, where they end, and whether a fetcher shares them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kafka_on_spark.errors import ProtocolError, UnknownTopicOrPartitionError
from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.epochs import (
    EpochEnd,
    EpochEntry,
    EpochHistory,
    end_offset_for,
    epochs_of,
    record_epochs,
)
from kafka_on_spark.log.fetch_checks import check_fetch, check_request
from kafka_on_spark.log.state import LogChange, ReplicaState
from tests.conformance.logs import commit, log_of_batches, log_of_epochs, records
from tests.conformance.running import Adapter, NotApplicableError, kafka_name

UNDEFINED = {"epoch": -1, "end_offset": -1}


def history_of(entries: list[list[int]]) -> EpochHistory:
    """Return the history that a vector lists as ``[[epoch, start offset], ...]``."""
    history = EpochHistory()
    for epoch, start in entries:
        history = history.assign(LeaderEpoch(epoch), Offset(start))
    return history


def listed(history: EpochHistory) -> list[list[int]]:
    """Return a history as vectors list it."""
    return [[each.leader_epoch, each.start_offset] for each in history.entries]


def pair(entry: EpochEntry | None) -> list[int] | None:
    """Return an entry as vectors give it."""
    return None if entry is None else [entry.leader_epoch, entry.start_offset]


def end_of(end: EpochEnd | None) -> dict[str, int]:
    """Return an answer as vectors give it."""
    if end is None:
        return dict(UNDEFINED)
    return {"epoch": end.leader_epoch, "end_offset": end.end_offset}


class LeaderEpochCache(Adapter):
    """Kind leader_epoch_cache."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        super().__init__(setup)
        self._history = history_of(setup["entries"])

    def state(self) -> Mapping[str, Any]:
        return {"entries": listed(self._history)}

    def assign(self, epoch: int, start_offset: int) -> Any:
        try:
            self._history = self._history.assign(LeaderEpoch(epoch), Offset(start_offset))
        except ValueError:
            return {"error": "ILLEGAL_ARGUMENT"}
        return {"error": "NONE"}

    def latest_epoch(self) -> int | None:
        latest = self._history.latest
        return None if latest is None else latest.leader_epoch

    def end_offset_for(self, epoch: int, log_end_offset: int) -> Any:
        return end_of(self._history.end_offset_for(LeaderEpoch(epoch), Offset(log_end_offset)))

    def reload(self) -> None:
        """The history is read off the batch headers each time: what is written is what is."""
        self._history = history_of(listed(self._history))

    def clear(self) -> None:
        self._history = EpochHistory()

    def truncate_from_end(self, offset: int) -> None:
        self._history = self._history.cut_from(Offset(offset))

    def truncate_from_start(self, offset: int) -> None:
        self._history = self._history.drop_below(Offset(offset))

    def previous_entry(self, epoch: int) -> list[int] | None:
        return pair(self._history.previous_to(LeaderEpoch(epoch)))

    def previous_epoch(self, epoch: int | None = None) -> int | None:
        latest = self._history.latest
        if epoch is None and latest is None:
            return None
        known = epoch if epoch is not None else latest.leader_epoch if latest else -1
        found = self._history.previous_to(LeaderEpoch(known))
        return None if found is None else found.leader_epoch

    def next_epoch(self, epoch: int) -> int | None:
        found = self._history.next_after(LeaderEpoch(epoch))
        return None if found is None else found.leader_epoch

    def epoch_entry(self, epoch: int) -> list[int] | None:
        return pair(self._history.entry(LeaderEpoch(epoch)))

    def epoch_for_offset(self, offset: int) -> int | None:
        return self._history.epoch_at(Offset(offset))


class EpochLog(Adapter):
    """Kind epoch_log: the same on a log, whose batches say what the cache holds in Kafka.

    Each record is a batch of its own, since Kafka's vectors cut anywhere; that a batch is never
    cut is tested by tests/unit/log/test_operations.py.
    """

    def __init__(self, setup: Mapping[str, Any]) -> None:
        super().__init__(setup)
        if "entries" in setup:
            self._log = log_of_epochs(setup["entries"], setup["log_end_offset"])
        else:
            batches = [
                (each["base"], each["count"], each["epoch"]) for each in setup.get("batches", ())
            ]
            self._log = log_of_batches(batches)
        self._assigned: int | None = None

    def _history(self) -> EpochHistory:
        return record_epochs(self._log) if self._assigned is None else epochs_of(self._log)

    def state(self) -> Mapping[str, Any]:
        history = self._history()
        epochs = {batch.leader_epoch for batch in self._log.batches}
        return {
            "entries": listed(history),
            "log_end_offset": self._log.log_end_offset,
            "latest_epoch": history.latest.leader_epoch if history.latest else None,
            "batch_epochs": f"all {next(iter(epochs))}" if len(epochs) == 1 else sorted(epochs),
        }

    def _answer(self) -> dict[str, Any]:
        history = self._history()
        return {
            "entry_count": len(history.entries),
            "latest_entry": pair(history.latest),
            "log_end_offset": self._log.log_end_offset,
        }

    def append_leader(self, leader_epoch: int, count: int) -> Any:
        self._fence(leader_epoch)
        for staged in records(count, leader_epoch, at=self._log.log_end_offset):
            change = operations.append(
                self._log, staged, leader_epoch=LeaderEpoch(leader_epoch), now_ms=0
            )
            assert isinstance(change, LogChange)
            self._log = self._log.apply(change)
        return self._answer()

    def append_follower(self, base_offset: int, count: int, batch_epoch: int) -> Any:
        self._fence(max(batch_epoch, self._log.leader_epoch or 0))
        batches = log_of_batches([(base_offset, count, batch_epoch)]).batches
        assert self._log.leader_epoch is not None
        self._log = self._log.apply(
            operations.append_fetched(self._log, batches, leader_epoch=self._log.leader_epoch)
        )
        return self._answer()

    def advance_log_start(self, offset: int) -> Any:
        change = operations.advance_log_start(self._log, Offset(offset))
        if change is not None:
            self._log = self._log.apply(change)
        if not self._log.batches:
            raise NotApplicableError("fence_ends_the_log")
        return self._answer()

    def truncate_to(self, offset: int) -> Any:
        """Cut as every cut is made: in the commit that adopts a leadership."""
        if self._assigned is not None and offset <= self._log.log_end_offset:
            raise NotApplicableError("fence_survives_a_cut")
        if offset < self._log.log_start_offset:
            raise NotApplicableError("no_cut_below_the_log_start")
        epoch = LeaderEpoch((self._log.leader_epoch or 0) + 1)
        change = operations.adopt(
            self._log, leader_epoch=epoch, truncate_to=Offset(offset), floor=Offset(0)
        )
        fence = self._log.leader_epoch
        self._log = replace(commit(self._log, change), leader_epoch=fence)
        return self._answer()

    def assign_epoch_start(self, epoch: int, offset: int) -> Any:
        if offset != self._log.log_end_offset or epoch <= (self._log.leader_epoch or -1):
            raise NotApplicableError("epoch_begins_where_the_log_ends")
        self._fence(epoch)
        self._assigned = epoch
        return self._answer()

    def end_offset_for_epoch(self, epoch: int) -> list[int] | None:
        found = end_offset_for(self._log, LeaderEpoch(epoch))
        return None if found is None else [found.leader_epoch, found.end_offset]

    def _fence(self, epoch: int) -> None:
        change = operations.adopt(
            self._log, leader_epoch=LeaderEpoch(epoch), truncate_to=None, floor=Offset(0)
        )
        self._log = commit(self._log, change)


class OffsetsForLeaderEpoch(Adapter):
    """Kind offsets_for_leader_epoch: a request for where an epoch ends, and its refusals."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        super().__init__(setup)
        if "follower" in setup or "note" in setup:
            raise NotApplicableError("two_brokers_epochs")
        self._role = setup["role"]
        self._epoch = LeaderEpoch(setup.get("leader_epoch", 0))
        self._log = self._read_log(setup)

    def _read_log(self, setup: Mapping[str, Any]) -> ReplicaState:
        if "entries" in setup:
            log = log_of_epochs(setup["entries"], setup["log_end_offset"])
        else:
            batches = [
                (each["base"], each["count"], each["epoch"]) for each in setup.get("batches", ())
            ]
            log = log_of_batches(batches)
        change = operations.adopt(log, leader_epoch=self._epoch, truncate_to=None, floor=Offset(0))
        return commit(log, change)

    def state(self) -> Mapping[str, Any]:
        return {"log_end_offset": self._log.log_end_offset}

    def _check(self, current: int | None, only_leader: bool) -> None:
        if self._role == "unhosted":
            raise UnknownTopicOrPartitionError("no such partition")
        check_request(
            self._epoch,
            None if current is None else LeaderEpoch(current),
            is_leader=self._role == "leader",
            needs_leader=only_leader,
        )

    def offsets_for_leader_epoch(
        self, current_leader_epoch: int | None, leader_epoch: int, only_leader: bool
    ) -> Any:
        try:
            self._check(current_leader_epoch, only_leader)
        except ProtocolError as error:
            return {"error": kafka_name(error), **UNDEFINED}
        return {"error": "NONE", **end_of(end_offset_for(self._log, LeaderEpoch(leader_epoch)))}

    def offset_snapshot(self, current_leader_epoch: int | None, only_leader: bool) -> Any:
        self._check(current_leader_epoch, only_leader)
        return {"error": "NONE"}

    def bump_leader_epoch(self, to: int) -> Any:
        raise NotApplicableError("two_brokers_epochs")

    def append_and_replicate(self, count: int) -> Any:
        raise NotApplicableError("two_brokers_epochs")


class FetchDivergence(Adapter):
    """Kind fetch_divergence: a fetch that says the epoch of the last record it has."""

    def follower_fetch(
        self,
        current_leader_epoch: int | None,
        fetch_offset: int,
        last_fetched_epoch: int | None = None,
    ) -> Any:
        setup = self.setup
        check_request(
            LeaderEpoch(setup["leader_epoch"]),
            None if current_leader_epoch is None else LeaderEpoch(current_leader_epoch),
            is_leader=setup["role"] == "leader",
            needs_leader=True,
        )
        diverging = check_fetch(
            history_of(setup["entries"]),
            log_start_offset=Offset(setup["log_start_offset"]),
            log_end_offset=Offset(setup["log_end_offset"]),
            fetch_offset=Offset(fetch_offset),
            last_fetched_epoch=None
            if last_fetched_epoch is None
            else LeaderEpoch(last_fetched_epoch),
        )
        return {"error": "NONE", "diverging": None if diverging is None else end_of(diverging)}
