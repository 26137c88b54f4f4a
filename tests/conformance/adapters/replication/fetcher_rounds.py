"""The kind of file 05 about a fetcher's rounds.

All of them go through the production fetch. A round of ours adopts the leadership, cuts, and takes
all that the leader has, a commit at a time; Kafka's fetcher takes a round for each.
"""

from dataclasses import replace
from typing import ClassVar

from kafka_on_spark.base.errors import NO_ERROR
from kafka_on_spark.base.ids import LeaderEpoch
from kafka_on_spark.log.truncation import latest_epoch_with_records
from tests.conformance.adapters.replication.fetcher import (
    CODES,
    LEADER,
    NO_LOCAL_MARK,
    OLD_FORMAT,
    RETRY,
    UNDEFINED,
    Pair,
    action_after,
    follower_report,
    records_of,
)
from tests.conformance.logs import batch_of, log_of
from tests.conformance.runner import Adapter, Answer, CutOffError
from tests.fakes import Fault, folder

ORDERS = "fetches-are-orders"
FENCES = "a-fetch-fences-its-leader"
ADOPTS = "adopted-before-fetched"
RETRIED = "failures-are-retried"
WIRE = "wire-detail"
ONE_BATCH = "one batch"
END = 2
"""Of the leaders' logs, where a vector is about several partitions."""


class Fetcher(Adapter):
    """Chooses by the setup: two logs, a leader's bare answers, or many partitions."""

    @classmethod
    def for_setup(cls, setup):
        if "partitions" in setup:
            return ManyPartitions
        if "log" in setup.get("follower", {}):
            return TwoLogs
        return BareAnswers if "follower" in setup else cls

    @classmethod
    def for_vector(cls, vector):
        """Kafka's leader answers a batch a round, so where rounds end tells what a batch is."""
        sort = cls.for_setup(vector.setup)
        if sort is not TwoLogs or vector.setup["follower"]["log"]:
            return sort
        rounds = [each for each in vector.steps if each["op"] == "fetcher_round"]
        ends = {each.get("expect", {}).get("log_end_offset", 0) for each in rounds} - {0}
        log = vector.setup["leader"]["log"]
        is_one = len({epoch for _, epoch in log}) == 1
        return OneBatch if is_one and ends == {log[-1][0] + 1} else sort

    @classmethod
    def sorts(cls):
        return (cls, TwoLogs, OneBatch, BareAnswers, ManyPartitions)

    def __init__(self, transport):
        raise CutOffError(WIRE)


class TwoLogs(Adapter):
    """A follower and its leader. Records are [offset, epoch]."""

    CUT_OFF: ClassVar = {
        "lag": WIRE,
        "leader_wipe": "wiped-leader-is-bad",
        "remove_partition_during_truncation": ORDERS,
        "diverging_response": ORDERS,
        "remove_partition": ORDERS,
        "leader_change": ORDERS,
        "fetch_response": ORDERS,
    }

    def __init__(
        self,
        follower,
        leader,
        fetch_backoff_ms=None,
        fetch_raises=None,
        epoch_lookup_supported=True,
        corrupt_first_response=False,
        during_epoch_lookup=None,
        epoch_lookup_returns_extra_partition=None,
        truncate_on_fetch=True,
        offset_lookup_raises=None,
        first_latest_offset_lookup_raises=None,
        fail=None,
        leader_replies=None,
    ):
        if not epoch_lookup_supported or follower.get("latest_epoch_unknown"):
            raise CutOffError(UNDEFINED if not epoch_lookup_supported else OLD_FORMAT)
        if during_epoch_lookup or fail or leader_replies:
            raise CutOffError(ORDERS)
        if offset_lookup_raises or epoch_lookup_returns_extra_partition:
            raise CutOffError(WIRE)  # both tables are inspected in one task; nothing is looked up
        self.fetch_raises = fetch_raises
        self.is_corrupt = corrupt_first_response
        # Some of Kafka's tests give a leader records of later epochs than its own leadership.
        newest = max((epoch for _, epoch in (*leader["log"], *follower["log"])), default=0)
        self.shift = max(0, newest - leader["leader_epoch"])
        self.epoch = follower["leader_epoch"] + self.shift
        self.leader_log = _log(leader, fence=leader["leader_epoch"] + self.shift)
        mine = _log(follower, fence=None)
        latest = latest_epoch_with_records(mine)
        self.follower_log = replace(mine, leader_epoch=latest)
        self.pair = None
        self.fetched = None

    def op_add_partition(self, fetch_offset, leader_epoch, force_truncation=False, partition=None):
        if self.pair is None or leader_epoch + self.shift != self.epoch:
            self._plan(leader_epoch + self.shift)
        return Answer({}, {"state": ADOPTS})

    def _plan(self, epoch):
        self.epoch = epoch
        if self.leader_log.leader_epoch < epoch:
            raise CutOffError(FENCES)
        self.pair = Pair(self.leader_log, self.follower_log, epoch=LeaderEpoch(epoch))

    def op_leader_set_epoch(self, epoch):
        self.leader_log = replace(self.leader_log, leader_epoch=LeaderEpoch(epoch + self.shift))
        self._plan(self.epoch)

    def op_fetcher_round(self):
        if self.fetch_raises is not None:
            action = action_after(CODES[self.fetch_raises], self.epoch, self.epoch)
            return {"delayed": action == RETRY}
        self._fetch()
        left_out = dict.fromkeys(("high_watermark",), NO_LOCAL_MARK)
        return Answer(self._about(self.follower_log), left_out)

    def _fetch(self):
        """Fetch as one of Kafka's rounds does: what cuts the log brings nothing yet, else a batch.

        One of ours does all that at once; a throttle that deals nothing, or a byte, stops it.
        """
        if self.is_corrupt:
            self._corrupt()
        self.fetched = self.pair.fetch(copy_bytes_max=0)
        if not self.fetched.result.truncated_records:
            self.fetched = self.pair.fetch(copy_bytes_max=1)
        self.follower_log = self.fetched.follower
        if self.is_corrupt:
            self.is_corrupt = False
            self.pair = None
            self._plan(self.epoch)

    def _corrupt(self):
        """Have the leader's files read as other bytes than their names say."""
        address = self.pair.disks.addresses[LEADER]
        files = self.pair.disks.roots[address.root].files[folder(address)]
        files.update(dict.fromkeys(files, b"damaged"))

    def _about(self, state):
        action = self._action()
        is_adopted = state.leader_epoch == self.epoch
        where = "FETCHING" if is_adopted else "TRUNCATING"
        is_failed = action == "FAIL"
        return {
            "log": records_of(state),
            "log_end_offset": state.log_end_offset,
            "log_start_offset": state.log_start_offset,
            "fetch_offset": state.log_end_offset,
            "last_fetched_epoch": latest_epoch_with_records(state),
            "leader_epoch": None if state.leader_epoch is None else state.leader_epoch - self.shift,
            "state": None if is_failed else where,
            "failed": is_failed,
            "delayed": action == RETRY,
            "ready_for_fetch": action is None,
        }

    def _action(self):
        """Return what becomes of the partition after the last fetch; None if it was not refused."""
        report = follower_report(self.fetched)
        if report.error_code == NO_ERROR:
            return None
        return action_after(report.error_code, self.epoch, self.epoch)

    def op_fetcher_rounds_until_equal(self, max_rounds):
        for _ in range(max_rounds):
            if records_of(self.follower_log) == records_of(self.leader_log):
                break
            self._fetch()

    def op_last_fetched_epoch(self):
        return latest_epoch_with_records(self.follower_log)

    def expected(self):
        state = self.follower_log
        value = {
            "log": records_of(state),
            "log_end_offset": state.log_end_offset,
            "log_start_offset": state.log_start_offset,
        }
        return Answer(value, {"high_watermark": NO_LOCAL_MARK})


def _log(given, *, fence):
    records = given["log"]
    start = given.get("log_start_offset", records[0][0] if records else 0)
    if given.get("batches") in (ONE_BATCH, "one batch of 2 records"):
        base, epoch = records[0]
        return log_of([batch_of(base, epoch, len(records))], start=start, fence=fence)
    batches = [batch_of(offset, epoch) for offset, epoch in records]
    return log_of(batches, start=start, fence=fence)


class OneBatch(TwoLogs):
    """The same, where all that the leader has is one batch."""

    def __init__(self, leader, **named):
        super().__init__(leader=leader | {"batches": ONE_BATCH}, **named)


class BareAnswers(Adapter):
    """A follower that is known by what its own log answers, and a leader by what it replies."""

    CUT_OFF: ClassVar = {"lag": WIRE, "last_fetched_epoch": ORDERS}

    def __init__(
        self,
        follower,
        leader=None,
        truncate_on_fetch=True,
        leader_replies=(),
        fetch_backoff_ms=None,
        epoch_lookup_returns_extra_partition=None,
    ):
        if epoch_lookup_returns_extra_partition:
            raise CutOffError(WIRE)
        self.end = follower["log_end_offset"]
        self.known = follower.get("end_offset_for_epoch") or {}
        self.replies = list(leader_replies)
        self.truncated_to = None

    def op_add_partition(self, fetch_offset, leader_epoch, force_truncation=False, partition=None):
        return Answer({}, {"state": ADOPTS})

    def op_fetcher_round(self):
        self.truncated_to = None
        reply = self.replies.pop(0) if self.replies else None
        if isinstance(reply, list):
            self._cut(*reply)
        # An error is no answer: it says nothing about the log.
        return self._about()

    def op_fetch_response(
        self, diverging=None, high_watermark=None, records=None, latest_epoch_after=None
    ):
        if diverging is None:
            raise CutOffError(NO_LOCAL_MARK)
        self.truncated_to = None
        self._cut(*diverging)
        return self._about()

    def _cut(self, epoch, end_offset):
        if end_offset == -1:
            raise CutOffError(UNDEFINED)
        mine = self.known.get(str(epoch))
        if mine is None:
            raise CutOffError(OLD_FORMAT)
        fetched = _pair_that_answers((epoch, end_offset), mine, self.end).fetch(copy_bytes_max=0)
        self.end = self.truncated_to = fetched.follower.log_end_offset

    def _about(self):
        value = {
            "truncate_to": self.truncated_to,
            "truncated": self.truncated_to is not None,
            "log_end_offset": self.end,
        }
        left_out = {"high_watermark_updated": NO_LOCAL_MARK, "high_watermark": NO_LOCAL_MARK}
        return Answer(value, left_out | {"state": ADOPTS})


def _pair_that_answers(answer, mine, end):
    """Return a leader whose log gives `answer`, and a follower of which `mine` is its own.

    Both are (epoch, end offset). The follower ends at `end`, with records of its own; so does the
    leader above its answer. What they share is all that the follower has up to `mine`.
    """
    (epoch, end_offset), (own_epoch, own_end) = answer, mine
    theirs, later = max(epoch, own_epoch) + 1, max(epoch, own_epoch) + 2
    shared = min(own_end, end_offset)
    leader = [batch_of(each, own_epoch) for each in range(shared)]
    leader += [batch_of(each, epoch, name="leader") for each in range(shared, end_offset)]
    leader += [batch_of(end_offset, later)]
    follower = [batch_of(each, own_epoch) for each in range(own_end)]
    follower += [batch_of(each, theirs) for each in range(own_end, end)]
    return Pair(
        log_of(leader, fence=later), log_of(follower, fence=theirs), epoch=LeaderEpoch(later)
    )


class ManyPartitions(Adapter):
    """Several partitions of one fetcher: one's failure is not another's."""

    def __init__(
        self,
        partitions,
        fetch_backoff_ms=None,
        fail=None,
        truncate_on_fetch=True,
        during_epoch_lookup=None,
        **unused,
    ):
        if during_epoch_lookup is not None:
            raise CutOffError(ORDERS)
        if isinstance(partitions, dict) and any(isinstance(e, dict) for e in partitions.values()):
            raise CutOffError(OLD_FORMAT)
        self.errors = partitions if isinstance(partitions, dict) else {}
        self.fail = fail or {}
        log = log_of([batch_of(each, 0) for each in range(END)], fence=0)
        self.pairs = {name: Pair(log, log_of([]), epoch=LeaderEpoch(0)) for name in partitions}
        for name in self.fail:  # its second commit, the append, fails; adopting does not
            pair = self.pairs[name]
            address = next(a for each, a in pair.disks.addresses.items() if each != LEADER)
            pair.disks.roots[address.root].faults.extend([None, Fault.OFFLINE])

    def op_add_partition(self, fetch_offset, leader_epoch, force_truncation=False, partition=None):
        return Answer({}, {"state": ADOPTS})

    def op_fetcher_round(self):
        states, failed, delayed = {}, [], {}
        for name, pair in self.pairs.items():
            fetched = pair.fetch()
            is_done = follower_report(fetched).error_code == NO_ERROR
            is_done = is_done and fetched.follower.log_end_offset == END
            states[f"{name}_state"] = "FETCHING" if is_done else "TRUNCATING"
            failed += [] if is_done else [name]
            error = self.errors.get(name, "NONE")
            delayed[name] = not is_done if error == "NONE" else self._is_delayed(error)
        left_out = {f"{name}_state": RETRIED for name in self.fail} | {"failed": RETRIED}
        return Answer({**states, "failed": failed, "delayed": delayed}, left_out)

    def _is_delayed(self, error):
        return action_after(CODES[error], LeaderEpoch(0), LeaderEpoch(0)) == RETRY

    def op_leader_change(self, partition, leader_epoch):
        raise CutOffError(RETRIED)
