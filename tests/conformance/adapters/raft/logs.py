"""Kinds of file 06 about a voter's log: look-ups and cuts."""

from typing import ClassVar

from kafka_on_spark.metadata.quorum.voter_table import (
    RaftLog,
    TableChange,
    VoterTable,
    end_offset_for_epoch,
    validate_offset_and_epoch,
)
from tests.conformance.adapters.raft.words import key_of, with_records
from tests.conformance.runner import Adapter, CutOffError

SNAPSHOTS = "snapshots-begin-logs"


def log_of(batches=(), snapshot=None):
    if snapshot:
        raise CutOffError(SNAPSHOTS)
    log = RaftLog()
    for count, epoch in batches:
        log = with_records(log, count, epoch)
    return log


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
        self.answer = {}

    def op_validate_offset_and_epoch(self, offset, last_epoch):
        cut_to = validate_offset_and_epoch(self.log, offset, last_epoch)
        is_valid = cut_to is None
        self.answer = {"kind": "valid"} if is_valid else {"kind": "diverging"} | place_of(cut_to)
        return self.answer

    def expected(self):
        return self.answer


class RaftLogs(Adapter):
    """A log that is cut, by a commit on its voter's table."""

    CUT_OFF: ClassVar = {
        "append": SNAPSHOTS,
        "add_snapshot": SNAPSHOTS,
        "truncate_to_latest_snapshot": SNAPSHOTS,
        "delete_before_snapshot": SNAPSHOTS,
        "create_snapshot": SNAPSHOTS,
    }

    def __init__(self, batches=None, log=None, high_watermark=None, snapshot_and_log_start=None):
        if snapshot_and_log_start is not None:
            raise CutOffError(SNAPSHOTS)
        if batches is not None:
            log = [(each["count"], each["epoch"]) for each in batches]
        self.high_watermark = high_watermark or 0
        found = log_of(log)
        self.table = VoterTable(key_of(0), found.end.epoch, log=found)

    def op_truncate_to(self, offset):
        if offset < self.high_watermark:
            raise CutOffError("no-high-watermark-of-a-voter")
        self.table = self.table.apply(TableChange(cut_to=offset))
        return {"log_start_offset": 0, "log_end_offset": self.table.log.end_offset}
