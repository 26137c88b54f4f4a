"""A topic whose timestamps are its clients' now, and then its appends': no file has both kinds."""

from collections import Counter
from typing import Any

from kafka_on_spark.log.merging import merge_plan
from kafka_on_spark.log.upkeep import replacing
from tests.simulation.checks.merging import ONE_EPOCH
from tests.simulation.faults.merged_plans import restamped
from tests.simulation.mutants.merging_mutants import _unchecked
from tests.simulation.mutants.protocol_mutants import Mutant
from tests.simulation.mutants.seeing import seen_without
from tests.simulation.simulation import simulate
from tests.simulation.test_simulation import failure_text

SEEDS = 4
MUTANT_SEEDS_MAX = 20

SOMETIMES = (
    "commit: merge",
    "part of a merged segment fetched",
    "records stamped by CreateTime",
    "records stamped by LogAppendTime",
)


def _of_any_timestamps(part: Any, rules: Any, appended_ms: int) -> tuple[int, bool, int]:
    leader_epoch, _, span = _KIND(part, rules, appended_ms)
    return leader_epoch, False, span


_KIND = merge_plan._kind_of

ONE_TYPE = Mutant(
    "a merged segment is of one timestamp type",
    ((merge_plan, "_kind_of", _of_any_timestamps), (replacing, "merge", _unchecked)),
    invariant=ONE_EPOCH,
)


def test_files_of_one_kind_are_merged_and_nobody_sees_it():
    met: Counter[str] = Counter()
    for seed in range(SEEDS):
        outcome = simulate(restamped(seed))
        met.update(outcome.seen)
        assert outcome.violation is None, failure_text(outcome)

    assert [name for name in SOMETIMES if not met[name]] == []


def test_a_missing_rule_is_seen_by_the_invariant_that_it_keeps():
    plans = map(restamped, range(MUTANT_SEEDS_MAX))

    assert ONE_TYPE.invariant in seen_without(ONE_TYPE, plans)
