"""Kinds of file 01: where leaderships begin and end in a log, and what a leader answers."""

from dataclasses import replace

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, Offset
from kafka_on_spark.controller.fetch_plan import check_request
from kafka_on_spark.log import operations
from kafka_on_spark.log.truncation import (
    EpochEnd,
    EpochEntry,
    check_fetch,
    end_offset_for,
    epoch_end,
    epoch_history,
    latest_epoch_with_records,
)
from tests.builders import partition
from tests.conformance.logs import (
    assigned,
    batch_of,
    cut_from_end,
    cut_from_start,
    entries_of,
    history_of,
    in_chain,
    log_of,
    log_with_history,
    staged_of,
)
from tests.conformance.runner import Adapter, CutOffError, IllegalArgumentError, kafka_names
from tests.conformance.world import adopted

LOCAL, OTHER = BrokerId(1), BrokerId(2)


class LeaderEpochCache(Adapter):
    """Kafka's epoch checkpoint is our history of a log."""

    def __init__(self, entries):
        self.history = history_of(entries)

    def op_assign(self, epoch, start_offset):
        try:
            batch_of(start_offset, epoch)  # no log has one of a negative epoch or offset
        except AssertionError as error:
            raise IllegalArgumentError from error
        entry = EpochEntry(LeaderEpoch(epoch), Offset(start_offset))
        self.history = assigned(self.history, entry)

    def op_latest_epoch(self):
        return latest(self.history)

    def op_end_offset_for(self, epoch, log_end_offset):
        return undefined_or(epoch_end(self.history, given(epoch), log_end_offset))

    def op_reload(self):
        """Read the history back from where it is kept: the batch headers of a log that has it."""
        entries = entries_of(self.history)
        log = log_with_history(entries, end=entries[-1][1] + 1 if entries else 0)
        self.history = epoch_history(log)

    def op_truncate_from_end(self, offset):
        if offset >= 0:  # -1: no offset is given
            self.history = cut_from_end(self.history, offset)

    def op_truncate_from_start(self, offset):
        if offset >= 0:
            self.history = cut_from_start(self.history, offset)

    def op_clear(self):
        self.history = history_of([])

    def op_previous_epoch(self, epoch=None):
        asked = latest(self.history) if epoch is None else epoch
        found = [] if asked is None else self._entries(lambda epoch: epoch < asked)
        return found[-1].leader_epoch if found else None

    def op_previous_entry(self, epoch):
        return entry_of(self._entries(lambda other: other < epoch)[-1:])

    def op_next_epoch(self, epoch):
        found = self._entries(lambda other: other > epoch)
        return found[0].leader_epoch if found else None

    def op_epoch_entry(self, epoch):
        return entry_of(self._entries(lambda other: other == epoch))

    def _entries(self, is_asked):
        return [each for each in self.history if is_asked(each.leader_epoch)]

    def expected(self):
        return {"entries": entries_of(self.history)}


def latest(history):
    return history[-1].leader_epoch if history else None


def entry_of(found):
    return [found[0].leader_epoch, found[0].start_offset] if found else None


def given(epoch):
    """Return an epoch in our words, where None stands for Kafka's -1."""
    return None if epoch == -1 else epoch


def undefined_or(end: EpochEnd | None):
    """Return an answer in Kafka's words, where -1 stands for undefined."""
    if end is None:
        return {"epoch": -1, "end_offset": -1}
    return {"epoch": end.leader_epoch, "end_offset": end.end_offset}


class EpochLog(Adapter):
    """A log and its history. A fence is the latest epoch that Kafka's history knows.

    Our replicas cut only when they adopt a leadership, which counts as their latest epoch at
    once; Kafka's log knows no fence. So a cut is made under a later one, which is taken off.
    """

    def __init__(self, log=None, log_end_offset=None, entries=None, batches=None, note=None):
        if entries is not None:
            self.state = log_with_history(entries, end=log_end_offset)
        else:
            listed = listed_in(batches)
            self.state = log_of(listed, fence=listed[-1].leader_epoch if listed else None)
        assert not log, "a log with records is given as batches"

    def op_append_leader(self, leader_epoch, count):
        self._adopt(leader_epoch)
        staged = staged_of(self.state.log_end_offset, leader_epoch, count)
        change = operations.append(self.state, staged, leader_epoch=leader_epoch, now_ms=0)
        self.state = self.state.apply(change)

    def op_append_follower(self, base_offset, count, batch_epoch):
        known = epoch_history(self.state)
        self._adopt(max(batch_epoch, latest(known) or 0))
        fetched = in_chain(self.state, [batch_of(base_offset, batch_epoch, count)])
        change = operations.append_fetched(
            self.state, fetched, leader_epoch=self.state.leader_epoch
        )
        after = assigned(known, EpochEntry(batch_epoch, base_offset))
        self.state = replace(self.state.apply(change), leader_epoch=latest(after))

    def _adopt(self, epoch):
        self.state = adopted(self.state, epoch)

    def op_advance_log_start(self, offset):
        change = operations.advance_log_start(self.state, offset)
        self.state = self.state if change is None else self.state.apply(change)

    def op_truncate_to(self, offset):
        if any(each.base_offset < offset < each.end_offset for each in self.state.batches):
            raise CutOffError("cut-at-borders")
        later = (self.state.leader_epoch or 0) + 1
        change = operations.adopt(
            self.state, leader_epoch=later, truncate_to=offset, floor=Offset(0)
        )
        cut = self.state.apply(change)
        self.state = replace(cut, leader_epoch=latest_epoch_with_records(cut))
        return self._about()

    def op_assign_epoch_start(self, epoch, offset):
        assert offset == self.state.log_end_offset, "a leadership begins at the log end"
        self._adopt(epoch)
        return self._about()

    def op_end_offset_for_epoch(self, epoch):
        end = end_offset_for(self.state, given(epoch))
        return None if end is None else [end.leader_epoch, end.end_offset]

    def _about(self):
        entries = entries_of(epoch_history(self.state))
        return {
            "entry_count": len(entries),
            "latest_entry": entries[-1] if entries else None,
            "log_end_offset": self.state.log_end_offset,
        }

    def expected(self):
        epochs = sorted({each.leader_epoch for each in self.state.batches})
        history = epoch_history(self.state)
        return {
            "batch_epochs": f"all {epochs[0]}" if len(epochs) == 1 else epochs,
            "entries": entries_of(history),
            "latest_epoch": latest(history),
            "log_end_offset": self.state.log_end_offset,
        }


class OffsetsForLeaderEpoch(Adapter):
    """What a broker answers about a partition that it leads, follows, or does not host."""

    def __init__(
        self,
        role,
        leader_epoch=0,
        batches=None,
        entries=None,
        log_end_offset=None,
        log_start_offset=None,
        follower=None,
    ):
        leader = LOCAL if role == "leader" else OTHER
        self.partition = partition("1 2", leader=leader, epoch=leader_epoch)
        if role == "unhosted":
            self.partition = None
        if entries is not None:
            self.state = log_with_history(
                entries, start=log_start_offset, end=log_end_offset, fence=leader_epoch
            )
        else:
            self.state = log_of(listed_in(batches), end=log_end_offset, fence=leader_epoch)
        mine = listed_in((follower or {}).get("batches"))
        self.follower = log_of(mine, fence=mine[-1].leader_epoch if mine else None)

    def op_offsets_for_leader_epoch(self, current_leader_epoch, leader_epoch, only_leader):
        try:
            self._check(current_leader_epoch, only_leader=only_leader)
        except KafkaOnSparkError as error:
            return {"error": kafka_names(error), **undefined_or(None)}
        return undefined_or(end_offset_for(self.state, given(leader_epoch)))

    def op_offset_snapshot(self, current_leader_epoch, only_leader):
        self._check(current_leader_epoch, only_leader=only_leader)

    def _check(self, leader_epoch, *, only_leader, fetched_by=None):
        check_asked(self.partition, LOCAL, leader_epoch, only_leader, fetched_by)

    def op_bump_leader_epoch(self, to):
        self.state = adopted(self.state, to)
        self.partition = replace(self.partition, leader_epoch=to)
        return self._both()

    def op_append_and_replicate(self, count):
        epoch = self.partition.leader_epoch
        staged = staged_of(self.state.log_end_offset, epoch, count)
        change = operations.append(self.state, staged, leader_epoch=epoch, now_ms=0)
        self.state = self.state.apply(change)
        follower = adopted(self.follower, epoch)
        missing = self.state.batches[len(follower.batches) :]
        fetched = operations.append_fetched(follower, missing, leader_epoch=epoch)
        self.follower = follower.apply(fetched)
        return self._both()

    def _both(self):
        return {
            "leader_entries": entries_of(epoch_history(self.state)),
            "follower_entries": entries_of(epoch_history(self.follower)),
        }

    def expected(self):
        return {"log_end_offset": self.state.log_end_offset}


class FetchDivergence(OffsetsForLeaderEpoch):
    """A follower's fetch that says the epoch of its last record."""

    def op_follower_fetch(self, current_leader_epoch, last_fetched_epoch, fetch_offset):
        self._check(current_leader_epoch, only_leader=True, fetched_by=OTHER)
        end = check_fetch(self.state, fetch_offset, last_fetched_epoch=given(last_fetched_epoch))
        return {"diverging": None if end is None else undefined_or(end)}


def listed_in(given):
    """Return a vector's batches as a log has them."""
    return [batch_of(each["base"], each["epoch"], each["count"]) for each in given or ()]


def check_asked(partition, asked, leader_epoch, only_leader, fetched_by):
    """Check a request to broker `asked`; unless `only_leader` is to answer, a follower may serve it."""
    if not only_leader and partition is not None and asked in partition.replicas:
        asked = partition.leader
    check_request(partition, asked, leader_epoch=leader_epoch, fetched_by=fetched_by)
