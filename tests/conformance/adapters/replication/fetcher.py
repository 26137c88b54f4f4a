"""Kinds of file 05: a follower that fetches, is refused, cuts its log, or starts anew.

Fetches go through the production fetch, on tables in memory.
"""

from itertools import pairwise, takewhile

from kafka_on_spark.base.errors import (
    ERROR_BY_CODE,
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    KafkaOnSparkError,
    OffsetOutOfRangeError,
)
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, Offset
from kafka_on_spark.controller.fetch_plan import awaits_metadata
from kafka_on_spark.log import operations
from kafka_on_spark.log.state import check_leader_epoch
from kafka_on_spark.log.truncation import (
    EpochEnd,
    latest_epoch_with_records,
    truncation_step,
    truncation_steps,
)
from kafka_on_spark.metadata.reports import ReplicaReport
from tests.conformance.fetching import Disks
from tests.conformance.logs import batch_of, in_chain, log_of
from tests.conformance.runner import Adapter, Answer, CutOffError, kafka_names
from tests.conformance.world import World

LEADER, FOLLOWER = BrokerId(1), BrokerId(2)
NO_LOCAL_MARK = "high-watermark-is-the-registers"
OLD_FORMAT = "every-batch-has-its-epoch"
UNDEFINED = "undefined-cuts-nothing"

CODES = {name: code for code, kind in ERROR_BY_CODE.items() for name in kafka_names(kind(""))} | {
    "UNKNOWN_SERVER_ERROR": UNKNOWN_SERVER_ERROR
}


RETRY = "RETRY_WITH_BACKOFF"


def action_after(code, asked_epoch, current_epoch):
    """Return what Kafka does after a fetch was refused. Ours finds where logs part at each try."""
    if awaits_metadata(code, asked_epoch, current_epoch):
        return "FAIL"
    return "OFFSET_RESET" if code == OffsetOutOfRangeError.code else RETRY


class TruncationState(Adapter):
    """One answer of a leader, and what it leaves of the follower's log."""

    def __init__(self, initial_fetch_offset, log_end_offset, follower_end_offset_for_epoch):
        self.log_end_offset = log_end_offset
        self.mine = follower_end_offset_for_epoch
        self.step = None

    def op_truncation_state(self, leader_epoch, leader_end_offset):
        if leader_end_offset == -1:
            raise CutOffError(UNDEFINED)
        if leader_epoch == -1 or self.mine is None:
            raise CutOffError(OLD_FORMAT)
        answer = EpochEnd(LeaderEpoch(leader_epoch), Offset(leader_end_offset))
        mine = EpochEnd(LeaderEpoch(self.mine[0]), Offset(self.mine[1]))
        self.step = truncation_step(answer, mine, Offset(self.log_end_offset))

    def expected(self):
        return {"truncate_to": self.step.truncate_to, "complete": self.step.is_complete}


class FetchError(Adapter):
    """A fetch that was refused, or whose answer comes late."""

    def __init__(
        self,
        current_leader_epoch=0,
        requested_leader_epoch=0,
        current_fetch_offset=None,
        state="FETCHING",
        log_end_offset=None,
        high_watermark=0,
        log_start_offset=0,
    ):
        self.current, self.requested = current_leader_epoch, requested_leader_epoch
        self.epoch = current_leader_epoch + 1
        offsets = (current_fetch_offset, log_end_offset, log_start_offset)
        end = next(each for each in offsets if each is not None)
        batches = [batch_of(each, 0) for each in range(log_start_offset, end)]
        # A follower that is still truncating has not adopted the leadership.
        fence = self.epoch if state == "FETCHING" else self.current
        self.log = log_of(batches, start=log_start_offset, fence=fence)
        self.action = None

    def op_partition_error(self, error):
        if error not in CODES:
            raise CutOffError("wire-detail")
        self.action = action_after(CODES[error], self.requested, self.current)

    def op_fetch_response(
        self, requested_offset, records, high_watermark=None, log_start_offset=None
    ):
        answer = in_chain(self.log, [batch_of(requested_offset, 0, records)] if records else [])
        is_applied = True
        try:
            if answer:
                change = operations.append_fetched(self.log, answer, leader_epoch=self.epoch)
                self.log = self.log.apply(change)
            else:
                check_leader_epoch(self.log.leader_epoch, self.epoch)
                operations.check_end(self.log, requested_offset)
            if log_start_offset is not None and log_start_offset <= self.log.log_end_offset:
                change = operations.advance_log_start(self.log, log_start_offset)
                self.log = self.log if change is None else self.log.apply(change)
        except KafkaOnSparkError:
            is_applied = False
        value = {
            "applied": is_applied,
            "log_end_offset": self.log.log_end_offset,
            "log_start_offset": self.log.log_start_offset,
        }
        return Answer(value, {"high_watermark": NO_LOCAL_MARK})

    def expected(self):
        return {"action": self.action}


class Pair:
    """A follower and its leader, on disks, under a leadership."""

    def __init__(self, leader, follower, *, epoch, is_in_sync=False):
        start = leader.log_start_offset
        self.world = World(
            leader,
            replicas=(1, 2),
            isr=(1, 2) if is_in_sync else (1,),
            leader_epoch=epoch,
            high_watermark=start,
        )
        self.disks = Disks(self.world)
        self.disks.put(LEADER, leader)
        self.disks.put(FOLLOWER, follower)

    def fetch(self, *, copy_bytes_max=None):
        return self.disks.fetch(FOLLOWER, copy_bytes_max=copy_bytes_max)


def follower_report(fetched) -> ReplicaReport:
    """Return what a fetch says of the follower; of the leader, if that could not be read."""
    followers = fetched.result.report.followers
    return followers[0] if followers else fetched.result.report.leader


class OffsetReset(Adapter):
    """A follower out of its leader's range, when it comes under a new leadership."""

    def __init__(self, follower, leader):
        mine, theirs = _ends(follower, fence=0), _ends(leader, fence=1)
        self.before = mine
        self.pair = Pair(theirs, mine, epoch=1)
        self.fetched = None

    def op_handle_offset_out_of_range(self):
        self.fetched = self.pair.fetch()

    def expected(self):
        done = list(zip(self.fetched.operations, self.fetched.states, strict=True))
        after = list(takewhile(lambda commit: commit[0] != "append_fetched", done))
        full = [state for name, state in after if name == "truncate_fully_and_start_at"]
        adopted = after[0][1]
        is_cut = adopted.log_end_offset < self.before.log_end_offset
        state = after[-1][1]
        value = {
            "truncate_to": adopted.log_end_offset if is_cut else None,
            "truncate_fully_and_start_at": full[0].log_start_offset if full else None,
            "fetch_offset": state.log_end_offset,
            "log_start_offset": state.log_start_offset,
            "log": records_of(state),
            "state": "FETCHING" if follower_report(self.fetched).error_code == NO_ERROR else None,
        }
        return Answer(value, {"high_watermark": NO_LOCAL_MARK})


def _ends(given, *, fence):
    start = given.get("log_start_offset", 0)
    whole = log_of([batch_of(each, 0) for each in range(given["log_end_offset"])], fence=fence)
    change = operations.advance_log_start(whole, Offset(start))
    return whole if change is None else whole.apply(change)


def records_of(state):
    return [
        [each.base_offset, each.leader_epoch]
        for each in state.batches
        if each.end_offset > state.log_start_offset
    ]


class Reconcile(Adapter):
    """A follower becomes like its leader. Batches are [base offset, count, epoch].

    A follower's batches are copies of its leader's: where a vector states one run of an epoch,
    it is split where the leader's batches of that epoch diverge.
    """

    def __init__(self, follower, leader):
        theirs = [batch_of(base, epoch, count) for base, count, epoch in leader["log"]]
        mine = [
            batch_of(base, epoch, end - base)
            for run in follower["log"]
            for base, end, epoch in _split(run, leader["log"])
        ]
        epoch = max([each.leader_epoch for each in (*theirs, *mine)], default=0) + 1
        self.leader = log_of(theirs, fence=epoch)
        self.follower = log_of(mine, fence=latest_epoch_with_records(log_of(mine)))
        self.pair = Pair(self.leader, self.follower, epoch=epoch)

    def op_reconcile(self):
        steps = truncation_steps(self.follower, self.leader)
        ends = [self.follower.log_end_offset, *(step.truncate_to for step in steps)]
        self.follower = self.pair.fetch().follower
        cuts = [after for before, after in pairwise(ends) if after < before]
        return {"truncations": cuts}

    def expected(self):
        batches = self.follower.batches
        return {"follower_log": [[e.base_offset, e.record_count, e.leader_epoch] for e in batches]}


def _split(run, leader_log):
    base, count, epoch = run
    edges = {base, base + count}
    for other, other_count, other_epoch in leader_log:
        if other_epoch == epoch:
            edges |= {each for each in (other, other + other_count) if base < each < base + count}
    ordered = sorted(edges)
    return [(begin, end, epoch) for begin, end in pairwise(ordered)]
