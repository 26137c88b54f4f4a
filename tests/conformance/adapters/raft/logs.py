"""Kinds of file 06 about a voter's log: look-ups, cuts, snapshots."""

from kafka_on_spark.raft.log.lookups import (
    Validity,
    end_offset_for_epoch,
    validate_offset_and_epoch,
)
from kafka_on_spark.raft.log.raft_log import OffsetAndEpoch, RaftBatch, RaftLog
from kafka_on_spark.raft.log.snapshots import check_snapshot, may_start_at, replaces_log
from tests.conformance.runner import Adapter, CutOffError, IllegalArgumentError


def log_of(batches=(), snapshot=None):
    """Return a log of batches, each [count, epoch], after a snapshot [offset, epoch]."""
    log = RaftLog((), OffsetAndEpoch(*snapshot)) if snapshot else RaftLog()
    for count, epoch in batches:
        log = with_records(log, count, epoch)
    return log


def with_records(log, count, epoch):
    end = log.end_offset
    return log.appended(RaftBatch(end, end + count, epoch, f"{epoch}-{end}"))


def place_of(at):
    return {"offset": at.offset, "epoch": at.epoch}


class EndOffset(Adapter):
    """A log's answers to "where does this epoch end?"."""

    def __init__(self, log, snapshot=None):
        self.log = log_of(log, snapshot)
        self.answer = None

    def op_end_offset_for_epoch(self, epoch):
        self.answer = end_offset_for_epoch(self.log, epoch)
        return place_of(self.answer)

    def op_initialize_leader_epoch(self, epoch):
        raise CutOffError("epochs-begin-with-a-no-op")

    def expected(self):
        return {} if self.answer is None else place_of(self.answer)


class ValidateOffset(Adapter):
    """A log's answers to "may I go on from here?"."""

    def __init__(self, log, snapshot, note=None):
        self.log = log_of(log, snapshot)
        self.answer = None

    def op_validate_offset_and_epoch(self, offset, last_epoch):
        self.answer = validate_offset_and_epoch(self.log, offset, last_epoch)
        return self.expected()

    def expected(self):
        if self.answer is None:
            return {}
        found = {"kind": self.answer.validity.value}
        if self.answer.validity is Validity.VALID:
            return found
        return found | place_of(self.answer.at)


class RaftLogs(Adapter):
    """A log with its snapshots and its high watermark."""

    def __init__(self, batches=None, log=None, high_watermark=None, snapshot_and_log_start=None):
        self.snapshots = set()
        self.high_watermark = high_watermark or 0
        if batches is None:
            self.log = log_of(log)
        else:
            self.log = log_of([(each["count"], each["epoch"]) for each in batches])
        if snapshot_and_log_start is not None:
            at = OffsetAndEpoch(*snapshot_and_log_start)
            self.snapshots.add(at)
            self._start_at(at)

    def _start_at(self, at):
        if at.offset >= self.log.end_offset:
            self.log = self.log.starting_at(at, None)
        else:
            self.log = RaftLog(self.log.from_offset(at.offset), at)

    def _ends(self):
        return {
            "log_start_offset": self.log.start.offset,
            "log_end_offset": self.log.end_offset,
            "high_watermark": self.high_watermark,
            "last_epoch": self.log.end.epoch,
        }

    def op_append(self, count, epoch):
        self.log = with_records(self.log, count, epoch)

    def op_truncate_to(self, offset):
        if offset < self.high_watermark:
            raise IllegalArgumentError
        self.log = self.log.cut_to(offset)
        return self._ends()

    def op_add_snapshot(self, offset, epoch):
        self.snapshots.add(OffsetAndEpoch(offset, epoch))

    def op_truncate_to_latest_snapshot(self):
        newest = max(self.snapshots, key=lambda each: (each.epoch, each.offset))
        truncated = replaces_log(self.log, newest)
        if truncated:
            self.log = self.log.starting_at(newest, None)
            self.high_watermark = newest.offset
        return {"truncated": truncated, **self._ends()}

    def op_delete_before_snapshot(self, offset, epoch):
        at = OffsetAndEpoch(offset, epoch)
        deleted = may_start_at(self.log, self.high_watermark, self.snapshots, at)
        if deleted:
            self._start_at(at)
        return {"deleted": deleted, **self._ends()}

    def op_create_snapshot(self, offset, epoch):
        at = OffsetAndEpoch(offset, epoch)
        try:
            is_needed = check_snapshot(self.log, self.high_watermark, at)
        except AssertionError as error:
            raise IllegalArgumentError from error
        if is_needed:
            self.snapshots.add(at)
        return {"writer": "open" if is_needed else None}

    def expected(self):
        return self._ends()
