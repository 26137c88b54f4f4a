"""The kinds of file 07 about compaction: what a cleaning keeps, and where it may go.

A cleaning here is a decision of the product, and the compactor that does it on a replica's files.
"""

from dataclasses import replace
from functools import cache
from itertools import count
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import ClassVar, NamedTuple

import pyarrow as pa

from kafka_on_spark.base.ids import BrokerId, Offset
from kafka_on_spark.controller.compaction import (
    CompactionReport,
    ReplicaProgress,
    compact,
)
from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import StagedBatch
from kafka_on_spark.log.compaction import dirt_of
from kafka_on_spark.log.compactor import Compactor, compact_replica
from kafka_on_spark.log.replica_upkeep import plan_upkeep
from kafka_on_spark.log.segments import (
    RECORD_SCHEMA,
    begin_puts,
    ended,
    new_segment,
    read_segment,
)
from kafka_on_spark.log.upkeep_work import Allowance
from kafka_on_spark.store.new_roots import prepare_root
from kafka_on_spark.store.roots import StorageOptions
from tests.builders import KEY, address, image_of, partition, partition_map, uuid_on
from tests.committing import committed
from tests.conformance.runner import Adapter, Answer, CutOffError
from tests.fakes import (
    FakeClock,
    MemoryReplicaFolders,
    MemoryReplicaStore,
    MemoryRoots,
    MemorySegmentStore,
)

TRANSACTIONS = "transactions"
COVERAGE = "compaction-keeps-coverage"
TOMBSTONES = "tombstones-wait-for-replicas"
ROUNDS = "compaction-rounds"
NOTHING_ACTIVE = "nothing-is-active"
NOWS = {"now": 10_000, "large": 10_000_000, "max": 2**62}
LARGE = 2**62
OPTIONS = StorageOptions()
NUMBERS = count()


@cache
def root():
    """Return a broker's root on a disk, which is there as long as the process."""
    folder = TemporaryDirectory(prefix="vectors")
    found = prepare_root(f"{folder.name}/1", "a-cluster", BrokerId(1), OPTIONS)
    return folder, found.directory_id


class _Part(NamedTuple):
    base_offset: Offset
    end_offset: Offset
    size_bytes: int
    appended_at_ms: int
    oldest_ms: int = 0


class Replica:
    """A replica whose records are in files; its table is in memory."""

    def __init__(self):
        folder, directory = root()
        url = f"{folder.name}/1"
        self.address = address(
            1, root=url, directory_id=directory, replica_uuid=f"u{next(NUMBERS)}"
        )
        roots = MemoryRoots({url: directory})
        store = MemoryReplicaStore(roots)
        store.create(self.address)
        self.log = store.open(self.address)
        self.clock = FakeClock()
        self.worker = SimpleNamespace(
            compactor=Compactor(OPTIONS),
            replicas=store,
            segments=MemorySegmentStore(roots),
            folders=MemoryReplicaFolders(roots),
            clock=self.clock,
        )

    def lead(self, epoch):
        state = self.log.load()
        change = operations.adopt(state, leader_epoch=epoch, truncate_to=None, floor=Offset(0))
        self.log.commit(state, change)

    def append(self, keys, nulls, epoch):
        state = self.log.load()
        base = state.log_end_offset
        table = pa.table(
            [
                pa.array([0] * len(keys)),
                pa.array([None if each is None else b"%d" % each for each in keys], pa.binary()),
                pa.array(
                    [None if at in nulls else b"v%d" % (base + at) for at in range(len(keys))],
                    pa.binary(),
                ),
                pa.array([None] * len(keys), RECORD_SCHEMA.field("headers").type),
            ],
            names=RECORD_SCHEMA.names,
        ).cast(RECORD_SCHEMA)
        segment, content = new_segment(table, epoch)
        [failures] = ended([begin_puts([self.address], segment, content, OPTIONS)])
        assert failures[self.address.broker_id] is None
        change = operations.append(
            state, StagedBatch(segments=(segment,), partition_count=1), leader_epoch=epoch, now_ms=0
        )
        self.log.commit(state, change)

    def compact(self, image):
        """Do what the register has decided."""
        [order] = plan_upkeep(image, [KEY])
        order = replace(order, address=self.address, leader=self.address)
        compact_replica(order, self.worker, Allowance(order, self.clock))

    def records(self):
        """Return what its files hold, in order: offset, key and value."""
        found = []
        for part in self.log.load().batches:
            for segment, base, _ in part.ranges():
                for row in read_segment(self.address, segment, OPTIONS).to_pylist():
                    key = None if row["key"] is None else int(row["key"])
                    value = None if row["value"] is None else row["value"].decode()
                    found.append([base + row["offset_delta"], key, value])
        return found


class Compaction(Adapter):
    """One log of one replica. `roll` ends what the next cleaning may take."""

    CUT_OFF: ClassVar = {
        "append_leader": "sequences",
        "two_pass_clean": TRANSACTIONS,
        "clean_segments": COVERAGE,
    }

    def __init__(
        self,
        batches=(),
        delete_retention_ms=0,
        map_slots=None,
        rule=None,
        log=None,
        segments=None,
        cleanable_segments=None,
    ):
        if map_slots is not None:
            raise CutOffError(ROUNDS)
        if rule is not None or segments is not None or cleanable_segments is not None:
            raise CutOffError(COVERAGE)
        retention_ms = 24 * 3_600_000 if delete_retention_ms == "default" else delete_retention_ms
        self.configs = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0",
            "delete.retention.ms": str(retention_ms),
        }
        self.replica = Replica()
        self.ranges = []
        self.end = self.stable = 0
        self.has_tombstones = False
        self.image = image_of(partition("1", hw=0), configs=self.configs)
        self.epoch = self.image.partition(KEY).leader_epoch
        self.replica.lead(self.epoch)
        if log is not None:
            self._segments(log)
        elif isinstance(batches, str):
            self._in_words(batches)
        else:
            for batch in batches:
                self.op_append_batch(batch)

    def _segments(self, words):
        """Read "offsets 0-9, segment base 15 with 15-24, active base 30": of what a gap had, the
        first cleaning leaves nothing."""
        bases = {"offsets 0-9, next segment base 11 (gap at 10), active": [0, 11]}
        bases["offsets 0-9, segment base 15 with 15-24, active base 30"] = [0, 15, 30]
        for base, end in zip(bases[words], bases[words][1:], strict=False):
            keys = [base + i for i in range(10)]
            self.op_append_batch({"keys": [*keys, *[None] * (end - base - 10)]})
        self.stable = self.end

    def _in_words(self, words):
        if words == "unkeyed segment then keyed":
            self.op_append_batch({"keys": [None, None]})
            self.op_append_batch({"keys": [1, 2]})
        else:
            assert words.startswith("keys 0..N-1, then tombstones for all even keys"), words
            self.op_append_batch({"keys": list(range(10))})
            evens = list(range(0, 10, 2))
            self.op_append_batch({"keys": evens, "null_values": list(range(len(evens)))})
            self.op_append_batch({"keys": [100, 101]})
        self.stable = self.end

    def op_append_batch(self, batch):
        if "marker" in batch or batch.get("transactional"):
            raise CutOffError(TRANSACTIONS)
        base, keys, nulls = self.end, batch["keys"], batch.get("null_values", ())
        self.has_tombstones |= bool(nulls)
        self.replica.append(keys, nulls, self.epoch)
        self.end = base + len(keys)
        self.ranges.append(_Part(Offset(base), Offset(self.end), len(keys), 0))

    def op_append_tombstone(self, key, timestamp):
        self.op_append_batch({"keys": [key], "null_values": [0]})

    def op_roll(self):
        self.stable = self.end

    def op_reload(self):
        pass

    def op_clean(self, now="now", first_dirty=None):
        registration = self.image.partition(KEY)
        if self.stable > registration.high_watermark:
            state = self.replica.log.load()
            at = {
                "high_watermark": Offset(self.stable),
                "high_watermark_epoch": state.epoch_at(Offset(self.stable - 1)),
                "high_watermark_chain": state.chain_at(Offset(self.stable)),
            }
            self._put(replace(registration, **at))
        now_ms = NOWS.get(now, now)
        done = self._cleaned(now_ms)
        if done.cleaned_below > done.expiring_below:
            done = self._cleaned(now_ms)  # the wait for tombstones is a decision of its own
        return self._answer(done)

    def _cleaned(self, now_ms):
        self._decide(now_ms)
        self.replica.compact(self.image)
        return self.image.partition(KEY).compaction

    def expected(self):
        return {"log_end_offset": self.end}

    def _decide(self, now_ms):
        registration = self.image.partition(KEY)
        progress = self.replica.log.load().compaction
        found = dirt_of(
            self.ranges,
            log_start_offset=Offset(0),
            compacted_below=registration.compaction.compacted_below,
            stable_below=registration.high_watermark,
            appended_before_ms=LARGE,
        )
        report = CompactionReport(
            key=KEY,
            leader_epoch=registration.leader_epoch,
            dirt=found,
            replicas={1: ReplicaProgress(uuid_on(1), Offset(self.end), progress)},
            cleaned_below=registration.compaction.cleaned_below,
            now_ms=now_ms,
            latest_ms=now_ms,
        )
        record = compact(self.image, report)
        if record is not None:
            self.image = committed(self.image, [record])

    def _put(self, registration):
        topic = self.image.topics[KEY.topic_id]
        topics = {KEY.topic_id: replace(topic, partitions=partition_map({0: registration}))}
        self.image = replace(self.image, topics=topics)

    def _answer(self, done):
        records = self.replica.records()
        values = [each for each in records if each[2] is not None]
        keys = [key for _, key, _ in values if key is not None]
        value = {
            "keys": keys,
            "offsets": [offset for offset, _, _ in values],
            "records": records,
            "markers": [],
            "next_dirty_offset": done.compacted_below,
            "no_value_for_keys": "even keys below N"
            if not any(key < 10 and key % 2 == 0 for key in keys)
            else "some",
            "unkeyed_left": len(values) - len(keys),
            "keyed": "unchanged" if {1, 2} <= {*keys} else "changed",
        }
        left_out = dict.fromkeys(
            ("batches", "batch_last_offsets", "first_batch_last_offset"), COVERAGE
        )
        left_out["last_sequences"] = "sequences"
        if self.has_tombstones:
            left_out["records"] = TOMBSTONES
        return Answer(value, left_out)


class CleanableRange(Adapter):
    """Where the dirty part of a log begins, and where what may be compacted ends."""

    def __init__(
        self,
        segments=8,
        high_watermark=None,
        last_clean=0,
        min_compaction_lag_ms=0,
        log=None,
        age=None,
        log_start_offset=0,
        log_end_offset=None,
        checkpoint=None,
    ):
        if log is not None:
            raise CutOffError(TRANSACTIONS)
        if None not in (log_end_offset, checkpoint) and checkpoint > log_end_offset:
            raise CutOffError("compacted-within-the-log")
        self.lag_ms = min_compaction_lag_ms
        self.slept_ms = 0
        self.start = log_start_offset
        self.compacted = last_clean if checkpoint is None else checkpoint
        self.has_one_segment = segments == 1
        self.end = end = log_end_offset or 80
        times = [1000] * 80 if isinstance(segments, int) else [1000] * 40 + [LARGE // 2] * 40
        self.ranges = [
            _Part(Offset(at), Offset(at + 1), 1, times[at]) for at in range(log_start_offset, end)
        ]
        self.stable = high_watermark if isinstance(high_watermark, int) else end
        self.newer = next(
            (each.base_offset for each in self.ranges if each.appended_at_ms > 1000), end
        )

    def resolve(self, expectation):
        if expectation == "base of the segment that was active at T0":
            return self.newer
        return expectation

    def op_cleanable_offsets(self, last_clean=None):
        self.compacted = self.compacted if last_clean is None else last_clean
        found = self._found()
        value = {
            "first_dirty": found.first_dirty,
            "first_uncleanable": found.cleanable_below,
            "reset": found.first_dirty != self.compacted,
        }
        left_out = {}
        if self.compacted > self.end:
            left_out["reset"] = "compacted-within-the-log"
        if found.cleanable_below == self.end:  # Kafka stops where its active segment begins
            left_out["first_uncleanable"] = NOTHING_ACTIVE
        return Answer(value, left_out)

    def op_grab_filthiest(self):
        if self.has_one_segment:
            return Answer(left_out={"": NOTHING_ACTIVE})
        found = self._found()
        if found.cleanable_below == found.first_dirty:
            return None
        return {"first_dirty": found.first_dirty}

    def op_advance_log_start(self, offset):
        self.start = offset

    def op_high_watermark(self, offset):
        self.stable = offset

    def op_roll(self):
        pass

    def op_sleep(self, ms):
        self.slept_ms += ms

    def _found(self):
        now_ms = 1000 + self.lag_ms + 1 + self.slept_ms
        return dirt_of(
            self.ranges,
            log_start_offset=Offset(self.start),
            compacted_below=Offset(self.compacted),
            stable_below=Offset(self.stable),
            appended_before_ms=now_ms - self.lag_ms if self.lag_ms else LARGE,
        )
