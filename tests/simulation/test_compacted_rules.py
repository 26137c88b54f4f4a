"""Rules of compaction that few seeds would show to be missing, each with what follows without it."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from kafka_on_spark.base.errors import OffsetOutOfRangeError
from kafka_on_spark.base.ids import BrokerId, Offset, TopicPartition
from kafka_on_spark.log import operations, read_order
from kafka_on_spark.log.compaction import CompactionProgress
from kafka_on_spark.metadata.partition import Compaction
from tests.kept import kept_records
from tests.simulation.checks.compaction import LOWERED, READ, reader_has_last_values
from tests.simulation.mutants.protocol_mutants import Mutant, _nothing
from tests.simulation.mutants.stage import KEY, Stage
from tests.simulation.world.keyed import keyed
from tests.simulation.world.scheduler import Violation

FIRST, SECOND, TOMBSTONE = 0, 15, 5
"""Records of one key."""

VALUES = Mutant(
    "a cut is read of a replica that has all values of it",
    ((read_order, "_check_values", _nothing),),
)
DELETIONS = Mutant(
    "changes are read of a replica that has all tombstones of them",
    ((read_order, "_check_deletions", _nothing),),
)
LOWERED_TARGET = Mutant(
    "a leader's target is not above its log",
    ((CompactionProgress, "lowered_to", lambda self, end: self),),
)

# fmt: off
READS = [  # values, the reader's table of before, from where on it reads to where, and what is gone
    pytest.param(VALUES,    [FIRST, SECOND],    {},        (0, 1), {"compacted_max": 1, "tombstones_max": None}, id="values"),
    pytest.param(DELETIONS, [FIRST, TOMBSTONE], {b"0": 0}, (1, 2), {"compacted_max": 2, "tombstones_max": 1},    id="deletions"),
]
# fmt: on


@pytest.mark.parametrize("mutant, values, table, span, asked", READS)
def test_a_reader_is_refused_that_would_miss_what_compaction_took(
    mutant, values, table, span, asked
):
    stage, below = Stage(), Offset(2)
    stage.committed(*values)
    left = CompactionProgress(compacted_below=below, tombstones_below=below)
    rows = kept_records(
        keyed(list(enumerate(values))), compacted_below=below, tombstones_below=below
    )
    order = SimpleNamespace(name=TopicPartition("orders", 0), **asked)

    with pytest.raises(OffsetOutOfRangeError):
        read_order.check_left(order, left)
    with mutant.alive():
        read_order.check_left(order, left)
    table = table | {each.key: each.offset for each in rows if each.offset in range(*span)}
    with pytest.raises(Violation, match=READ):
        reader_has_last_values(stage.checker.ledger, KEY, table, span[1], is_cut=True)


@pytest.mark.parametrize("is_missing", [False, True])
def test_an_unclean_leader_lowers_its_target_to_its_log(is_missing):
    stage = Stage()
    stage.committed(10, 11)
    stage.change(isr=frozenset({BrokerId(1), BrokerId(3)}))
    stage.make(2)  # it was lost, and has taken one of two records, and the leader's target
    stage.adopt(2, 0)
    stage.change(compaction=Compaction(compacted_below=Offset(2)))
    stage.add(2, stage.batch(10, 0))
    stage.commit(2, "append_fetched", compaction=CompactionProgress(compacted_below=Offset(2)))
    state = stage.table(2).state
    stage.change(
        leader=BrokerId(2),
        isr=frozenset({BrokerId(2)}),
        high_watermark=Offset(1),
        high_watermark_epoch=0,
        high_watermark_chain=state.chain_at(Offset(1)),
        unclean_generation=1,
        compaction=Compaction(compacted_below=Offset(1)),
    )

    with LOWERED_TARGET.alive() if is_missing else nullcontext():
        change = operations.adopt(state, leader_epoch=1, truncate_to=None, floor=Offset(0))

    with pytest.raises(Violation, match=LOWERED) if is_missing else nullcontext():
        assert stage.disks.commit(stage.address(2), state.version + 1, change)
