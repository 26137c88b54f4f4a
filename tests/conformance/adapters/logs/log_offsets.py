"""Kinds of file 07 about one log: its ends, and offsets by time."""

from dataclasses import replace

from kafka_on_spark.base.errors import CorruptLogError, UnknownTopicOrPartitionError
from kafka_on_spark.base.ids import NO_CHAIN, Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.reading import FoundOffset, offset_for_time, offset_of_latest_time
from kafka_on_spark.log.truncation import EpochEntry, check_fetch, epoch_history
from kafka_on_spark.produce.append_rounds import check_keys
from kafka_on_spark.produce.leader_log import PartitionBatch
from tests.builders import KEY, NOW_MS, staged
from tests.conformance.adapters.replication.epochs import EpochLog, latest
from tests.conformance.logs import batch_of, entries_of, log_of
from tests.conformance.runner import Adapter, Answer, CutOffError, kafka_names
from tests.conformance.world import World, adopted, extended

LEADER_EPOCH = 1


class LogOffsets(Adapter):
    """A log, and the high watermark that a second member of its ISR lets the register have.

    Kafka keeps a high watermark in the log; ours is the register's. "Update it to 5" is a
    second replica that says it has everything below 5.
    """

    def __init__(self, log=None, log_end_offset=0, log_start_offset=0, cleanup_policy="delete"):
        assert log in (None, "empty", [])
        made = [batch_of(each, LEADER_EPOCH) for each in range(log_start_offset, log_end_offset)]
        state = log_of(made, start=log_start_offset, fence=LEADER_EPOCH)
        configs = {"cleanup.policy": cleanup_policy}
        self.world = World(state, replicas=(1, 2), leader_epoch=LEADER_EPOCH, configs=configs)

    def op_high_watermark_is(self):
        return self.world.high_watermark

    def op_append_leader_plain(self, count):
        self.world.append(*[1] * count)

    def op_maybe_increment_hw(self, offset):
        return self.op_update_hw(offset)

    def op_update_hw(self, offset):
        self._member_has(offset)
        self.world.decide_high_watermark()
        return self.world.high_watermark

    def op_maybe_update_hw(self, offset):
        self._member_has(offset)
        return self.world.decide_high_watermark()

    def _member_has(self, offset):
        # A member can't have more than its leader: what it has beyond is another log's.
        self.world.see_follower(2, min(offset, self.world.leader.log_end_offset))

    def op_append_follower(self, base_offset, count):
        batches = [batch_of(base_offset + each, LEADER_EPOCH) for each in range(count)]
        before = self.world.leader
        try:
            self.world.leader = extended(before, batches)
        except CorruptLogError as error:
            # Which offsets Kafka's error names is between its fetcher and its log.
            left_out = dict.fromkeys(("first_offset", "last_offset"), "wire-detail")
            return Answer({"error": kafka_names(error)}, left_out)
        new = self.world.leader.batches[len(before.batches) :]
        return {"first_offset": new[0].base_offset, "last_offset": new[-1].end_offset - 1}

    def op_append_follower_offsets(self, offsets):
        batches = [batch_of(each, LEADER_EPOCH) for each in offsets]
        self.world.leader = extended(self.world.leader, batches)

    def op_truncate_to(self, offset):
        if offset < self.world.high_watermark:
            raise CutOffError("cut-below-high-watermark")
        self.world.leader = cut(self.world.leader, offset)
        return self._about()

    def op_truncate_fully_and_start_at(self, offset):
        if offset < self.world.high_watermark:
            raise CutOffError("cut-below-high-watermark")
        change = operations.truncate_fully_and_start_at(
            self.world.leader,
            Offset(offset),
            leader_epoch=self.world.leader.leader_epoch,
            producers={},
            chain_before=NO_CHAIN,
        )
        self.world.leader = self.world.leader.apply(change)
        return self._about()

    def op_read(self, offset):
        check_fetch(self.world.leader, offset)
        return {"records": self.world.leader.log_end_offset - offset}

    def op_append_records(self, keys):
        """Check what a task has staged; the refusal names the partition, not the record."""
        batch = replace(staged("a"), has_keyless=None in keys)
        check_keys(self.world.image, [PartitionBatch(key=KEY, staged=batch, holders=())])

    def _about(self):
        return {
            "log_end_offset": self.world.leader.log_end_offset,
            "size": sum(batch.size_bytes for batch in self.world.leader.batches),
        }

    def expected(self):
        log = self.world.leader
        return {"log_start_offset": log.log_start_offset, "log_end_offset": log.log_end_offset}


def cut(state, offset):
    """Return a log cut at `offset` by adopting a later leadership; ours are cut in no other way."""
    later = state.leader_epoch + 1
    change = operations.adopt(state, leader_epoch=later, truncate_to=offset, floor=Offset(0))
    return replace(state.apply(change), leader_epoch=state.leader_epoch)


class ListOffsets(Adapter):
    """Offsets by time, of a log of single records."""

    def __init__(self, log=(), hosted=True, note=None):
        if isinstance(log, str):
            log = records_in_words(log)
        records = [batch_of(each[0], each[1], timestamp_ms=each[2]) for each in log]
        fence = records[-1].leader_epoch if records else None
        self.epochs = EpochLog(batches=[])
        self.epochs.state = log_of(records, fence=fence)
        self.is_hosted = hosted

    @property
    def state(self):
        return self.epochs.state

    def op_on_empty_log(self):
        found = offset_of_latest_time(log_of([]), read_nothing)
        return {"offset": None if found is None else found.offset}

    def op_list_offsets(self, timestamp):
        if not self.is_hosted:
            raise UnknownTopicOrPartitionError("the vector's partition is on no broker")
        return found_in_words(find(self.state, timestamp))

    def op_assign_epoch(self, epoch, start_offset):
        entry = EpochEntry(epoch, start_offset)
        assert entry in epoch_history(adopted(self.state, epoch))
        self.epochs.state = adopted(self.state, epoch)

    def op_truncate_to(self, offset):
        return self.epochs.op_truncate_to(offset)

    def op_delete_records(self, before_offset):
        self.epochs.op_advance_log_start(
            self.state.log_end_offset if before_offset == -1 else before_offset
        )

    def expected(self):
        return {
            "log_end_offset": self.state.log_end_offset,
            "log_start_offset": self.state.log_start_offset,
            "entries": entries_of(epoch_history(self.state)),
        }


def records_in_words(text):
    times = {"records, timestamp == offset": 0, "records with current timestamps": NOW_MS}
    count, _, words = text.partition(" ")
    return [[offset, 0, times[words] + offset] for offset in range(int(count))]


def find(state, timestamp):
    """Ask a log for what a vector calls LATEST, 100 and so on."""
    epochs = epoch_history(state)
    if timestamp in ("EARLIEST", "EARLIEST_LOCAL"):
        start = state.log_start_offset
        epoch = state.epoch_at(start)
        epoch = latest(epochs) if epoch is None else epoch
        return FoundOffset(offset=start, timestamp_us=None, leader_epoch=epoch)
    # Where no records are, the epoch is the fence.
    if timestamp == "LATEST":
        return FoundOffset(
            offset=state.log_end_offset, timestamp_us=None, leader_epoch=latest(epochs)
        )
    if timestamp == "MAX_TIMESTAMP":
        return offset_of_latest_time(state, read_nothing)
    return offset_for_time(state, timestamp * 1000, read_nothing)


def found_in_words(found):
    """Return an answer in Kafka's words, where a timestamp of -1 stands for none."""
    if found is None:
        return {"offset": None, "timestamp": -1, "leader_epoch": None}
    timestamp = -1 if found.timestamp_us is None else found.timestamp_us // 1000
    return {"offset": found.offset, "timestamp": timestamp, "leader_epoch": found.leader_epoch}


def read_nothing(segment):
    """A segment of one record says its timestamp itself: no file is read."""
    raise AssertionError(segment)
