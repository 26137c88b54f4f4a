"""Files 05: how a follower finds where it parts from its leader, and what it does about errors."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.epochs import EpochEnd, end_offset_for, latest_epoch_with_records
from kafka_on_spark.log.fetch_checks import action_after
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.log.truncation import divergence_steps, truncation_step
from kafka_on_spark.service.replication import FetchOrder, fetch
from tests.builders import KEY, address, partition
from tests.conformance.logs import batch_of, log_of, log_of_batches
from tests.conformance.running import Adapter, NotApplicableError
from tests.fakes import FakeClock, MemoryReplicaStore, MemoryRoots, MemorySegmentStore

LEADER, FOLLOWER = address(1), address(2)


class TruncationState(Adapter):
    """Kind truncation_state: one answer of the leader's."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        super().__init__(setup)
        self._state: dict[str, Any] = {}

    def state(self) -> Mapping[str, Any]:
        return self._state

    def truncation_state(self, leader_epoch: int, leader_end_offset: int) -> None:
        mine = self.setup["follower_end_offset_for_epoch"]
        if leader_epoch < 0 or leader_end_offset < 0:
            raise NotApplicableError("never_cut_to_the_high_watermark")
        if mine is None:
            raise NotApplicableError("nothing_shared_below_the_first_epoch")
        step = truncation_step(
            EpochEnd(LeaderEpoch(leader_epoch), Offset(leader_end_offset)),
            EpochEnd(LeaderEpoch(mine[0]), Offset(mine[1])),
            Offset(self.setup["log_end_offset"]),
        )
        self._state = {"truncate_to": step.offset, "complete": step.is_complete}


class FetchError(Adapter):
    """Kind fetch_error: what follows an error."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        super().__init__(setup)
        self._state: dict[str, Any] = {}

    def state(self) -> Mapping[str, Any]:
        return self._state

    def partition_error(self, error: str) -> None:
        action = action_after(
            error,
            requested=LeaderEpoch(self.setup["requested_leader_epoch"]),
            current=LeaderEpoch(self.setup["current_leader_epoch"]),
        )
        self._state = {"action": action.name}

    def fetch_response(self, **arguments: Any) -> None:
        raise NotApplicableError("a_commit_decides_what_is_applied")


class Pair:
    """A leader's and a follower's replica in memory, and the production fetch between them."""

    def __init__(self, leader: ReplicaState, follower: ReplicaState) -> None:
        self.roots = MemoryRoots()
        for each in (LEADER, FOLLOWER):
            self.roots.add(each.root, each.directory_id)
        self._replicas = MemoryReplicaStore(self.roots)
        self._segments = MemorySegmentStore(self.roots)
        epoch = max(leader.leader_epoch or 0, follower.leader_epoch or 0) + 1
        for place, log in ((LEADER, leader), (FOLLOWER, follower)):
            self._replicas.make(place)
            self._fill(place, log)
        start = leader.log_start_offset
        self.partition = partition("1 2", isr="1", epoch=epoch, hw=start, start=start)

    def _fill(self, place: Any, log: ReplicaState) -> None:
        replica = self._replicas.open(place)
        state = replica.load()
        fence = LeaderEpoch(log.leader_epoch or 0)
        change = operations.truncate_fully_and_start_at(
            state,
            log.batches[0].base_offset if log.batches else log.log_end_offset,
            leader_epoch=fence,
            producers={},
        )
        state = replica.commit(state, change)
        for batch in log.batches:
            for segment in batch.segments:
                self._segments.put(place, segment)
        if log.batches:
            change = operations.append_fetched(state, log.batches, leader_epoch=fence)
            state = replica.commit(state, change)
        start = operations.advance_log_start(state, log.log_start_offset)
        if start is not None:
            replica.commit(state, start)

    def fetch(self) -> Any:
        """Run one fetch; return what it reports."""
        order = FetchOrder(
            key=KEY,
            partition=self.partition,
            leader=LEADER,
            follower=FOLLOWER,
            fetch_bytes_max=1_000_000,
        )
        return fetch(order, self._replicas, self._segments, FakeClock())

    def follower(self) -> ReplicaState:
        """Return the follower's log."""
        return self._replicas.open(FOLLOWER).load()


def batches(listed: list[list[int]]) -> ReplicaState:
    """Return the log of ``[[base offset, count, epoch], ...]``, batches as they are."""
    return log_of([batch_of(*each) for each in listed])


class Reconcile(Adapter):
    """Kind reconcile: a follower's whole way to its leader's log."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        super().__init__(setup)
        self._leader = batches(setup["leader"]["log"])
        # Kafka's logs are cut between records of a batch, ours between batches: each record is
        # one where the follower's batches are not the leader's.
        own = [tuple(each) for each in setup["follower"]["log"]]
        ours = setup["follower"]["log"] == setup["leader"]["log"][: len(own)]
        self._follower = batches(setup["follower"]["log"]) if ours else log_of_batches(own)
        if not ours:
            self._leader = log_of_batches([tuple(each) for each in setup["leader"]["log"]])
        self._pair = Pair(self._leader, self._follower)
        self._is_split = not ours

    def reconcile(self) -> Any:
        steps = list(
            divergence_steps(self._follower, lambda epoch: end_offset_for(self._asked(), epoch))
        )
        ends = [self._follower.log_end_offset, *steps]
        cuts = [after for before, after in pairwise(ends) if after < before]
        result = self._pair.fetch()
        assert result.truncated_records == ends[0] - ends[-1]
        return {"truncations": cuts}

    def _asked(self) -> ReplicaState:
        return replace(self._leader, leader_epoch=self._pair.partition.leader_epoch)

    def state(self) -> Mapping[str, Any]:
        found = self._pair.follower().batches
        if not self._is_split:
            return {
                "follower_log": [[b.base_offset, b.record_count, b.leader_epoch] for b in found]
            }
        expected = self.setup["leader"]["log"]
        whole = log_of_batches([tuple(each) for each in expected]).batches
        same = [(b.base_offset, b.leader_epoch) for b in found] == [
            (b.base_offset, b.leader_epoch) for b in whole
        ]
        return {
            "follower_log": expected if same else [[b.base_offset, b.leader_epoch] for b in found]
        }


class OffsetReset(Adapter):
    """Kind offset_reset: where a follower goes on whose end is not in its leader's log."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        super().__init__(setup)
        leader, follower = setup["leader"], setup["follower"]
        if leader["log_end_offset"] < follower["log_end_offset"]:
            raise NotApplicableError("a_leader_that_lost_commits_is_bad")
        self._leader = _span(leader)
        self._follower = _span(follower)
        self._pair = Pair(self._leader, self._follower)

    def handle_offset_out_of_range(self) -> None:
        self._result = self._pair.fetch()

    def state(self) -> Mapping[str, Any]:
        found = self._pair.follower()
        (report,) = self._result.report.followers
        is_new = (
            found.log_start_offset == self._leader.log_start_offset > self._follower.log_end_offset
        )
        began = self._leader.log_start_offset if is_new else self._follower.log_end_offset
        return {
            "truncate_to": None if self._result.truncated_records == 0 else began,
            "truncate_fully_and_start_at": began if is_new else None,
            "fetch_offset": began,
            "log_start_offset": found.log_start_offset,
            "log": [],
            "state": "FETCHING" if report.error_code == 0 else report.error,
        }


def _span(log: Mapping[str, int]) -> ReplicaState:
    start, end = log["log_start_offset"], log["log_end_offset"]
    if end == start:
        return log_of([], start=start, end=end, fence=0)
    return log_of_batches([(start, end - start, 0)], fence=0)


KNOWN_SIDES = {"log", "leader_epoch", "high_watermark", "log_start_offset", "batches"}


class Fetcher(Adapter):
    """Kind fetcher: rounds of fetching between two logs.

    What is about the threads, look-ups and responses of Kafka's protocol does not apply: here a
    round is one task that finds the divergence, cuts and copies.
    """

    def __init__(self, setup: Mapping[str, Any]) -> None:
        super().__init__(setup)
        sides = [setup.get("follower"), setup.get("leader")]
        if set(setup) - {"follower", "leader", "note"} or not all(
            isinstance(side, Mapping) and set(side) <= KNOWN_SIDES and "log" in side
            for side in sides
        ):
            raise NotApplicableError("no_fetcher_threads")
        follower, leader = setup["follower"], setup["leader"]
        if follower.get("leader_epoch") != leader.get("leader_epoch"):
            raise NotApplicableError("orders_carry_the_epoch")
        ends = [(side["log"][-1][0] + 1 if side["log"] else 0) for side in (follower, leader)]
        if leader.get("log_start_offset", 0) == 0 and leader["log"] and leader["log"][0][0] > 0:
            raise NotApplicableError("no_fetcher_threads")
        self._pair = Pair(_singles(leader), _singles(follower))
        self._ends = ends

    def add_partition(
        self,
        fetch_offset: int,
        leader_epoch: int,
        force_truncation: bool = False,
        partition: str = "",
    ) -> Any:
        if fetch_offset > self._ends[0] or partition:
            raise NotApplicableError("no_fetcher_threads")
        return {}

    def fetcher_round(self) -> Any:
        result = self._pair.fetch()
        found = self._pair.follower()
        reported = [*result.report.followers, result.report.leader]
        if any(each.is_bad for each in reported):
            raise NotApplicableError("a_leader_that_lost_commits_is_bad")
        return {
            "log_end_offset": found.log_end_offset,
            "log_start_offset": found.log_start_offset,
            "log": self._log(found),
            "last_fetched_epoch": latest_epoch_with_records(found),
            "state": "FETCHING",
            # A follower keeps none; the register's is the leader's, up to what the follower has.
            "high_watermark": min(
                self.setup["leader"].get("high_watermark", 0), found.log_end_offset
            ),
        }

    def fetcher_rounds_until_equal(self, max_rounds: int) -> None:
        for _ in range(max_rounds):
            if self._log(self._pair.follower()) == self.setup["leader"]["log"]:
                return
            self._pair.fetch()
        raise AssertionError(f"not equal after {max_rounds} rounds: {self._pair.follower()}")

    def last_fetched_epoch(self) -> int | None:
        raise NotApplicableError("one_round_does_it_all")

    def _log(self, found: ReplicaState) -> list[list[int]]:
        return [[each.base_offset, each.leader_epoch] for each in found.batches]

    def state(self) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = self.fetcher_round()
        return answer

    def leader_set_epoch(self, epoch: int) -> None:
        raise NotApplicableError("orders_carry_the_epoch")

    def remove_partition_during_truncation(self) -> None:
        raise NotApplicableError("no_fetcher_threads")

    def remove_partition(self) -> None:
        raise NotApplicableError("no_fetcher_threads")

    def diverging_response(self, epoch: int, end_offset: int) -> None:
        raise NotApplicableError("no_fetcher_threads")

    def leader_change(self, partition: str, leader_epoch: int) -> None:
        raise NotApplicableError("no_fetcher_threads")

    def fetch_response(self, **arguments: Any) -> None:
        raise NotApplicableError("no_fetcher_threads")

    def lag(self) -> None:
        raise NotApplicableError("no_fetcher_threads")

    def epoch_lookup(self, partitions: list[str]) -> None:
        raise NotApplicableError("no_fetcher_threads")

    def leader_wipe(self) -> None:
        raise NotApplicableError("a_leader_that_lost_commits_is_bad")


def _singles(side: Mapping[str, Any]) -> ReplicaState:
    log = log_of_batches([(offset, 1, epoch) for offset, epoch in side["log"]])
    if not log.batches:
        start = side.get("log_start_offset", 0)
        return log_of([], start=start, end=start, fence=0)
    start = side.get("log_start_offset", log.log_start_offset)
    return replace(log, log_start_offset=max(start, log.log_start_offset))
