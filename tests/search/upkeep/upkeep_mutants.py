"""Rules of merging, retention and compaction, each switched off by a patch that the search must see.

The rest needs what no search has, and is in merging_mutants.py, compaction_mutants.py and
retention_mutants.py of the simulation: disks that go back (a follower finds its own digest in its
leader's segment), answers that are lost (a merge that may stand is put again only if its inputs
do), time (a tombstone stays for delete.retention.ms), clocks, and what files hold (a merge keeps all
records, the last value of each key stays). Readers, who select by offset and not by place, are in
tests/log/replicas/test_missing_records.py; that only a log is merged that has what is registered is
in tests/log/test_merging_replicas.py.
"""

from dataclasses import replace
from typing import Any

from kafka_on_spark.log import compactor as compacting
from kafka_on_spark.log import fetch as fetching
from kafka_on_spark.log import operations
from kafka_on_spark.produce import leader_log
from tests.search.mutants import Case
from tests.search.scope import Scope
from tests.search.upkeep import checks
from tests.search.upkeep.upkeep_scopes import CUT, EXPIRED, JOINING, RETENTION
from tests.simulation.mutants.compaction_mutants import COMPACTION_MUTANTS
from tests.simulation.mutants.merging_mutants import MERGING_MUTANTS
from tests.simulation.mutants.protocol_mutants import Mutant, _nothing
from tests.simulation.mutants.retention_mutants import RETENTION_MUTANTS

_SIMULATED = {
    each.rule: each
    for each in [
        *MERGING_MUTANTS,
        *RETENTION_MUTANTS,
        *COMPACTION_MUTANTS,
    ]
}


def _case(rule: str, scope: Scope, invariant: str) -> Case:
    """Return a mutant of the simulation, which the search sees in `scope`."""
    return Case(_SIMULATED[rule], scope, invariant)


def _with_all_of_it(state: Any, end_offset: Any, kept_part: Any) -> Any:
    """Cut behind the merged segment inside which the cut falls."""
    return None if end_offset >= state.log_end_offset else end_offset


def _with_tombstones(self: Any, parts: Any, last: Any, progress: Any) -> Any:
    """Rewrite as if all tombstones that are compacted could go."""
    return _REWRITTEN(self, parts, last, replace(progress, tombstones_below=progress.round_below))


_REWRITTEN = compacting._Compacting._rewritten

ZOMBIE = Scope(values="a", logs=("xy", "xy", "xy"), rounds=0, merges="2")
ALONE = Scope(values="ab", elections=0, fencings=0, rounds=0, merges="1")
AFTER = Scope(values="a", logs=("x", "x", "x"), rounds=0, merges="2")
NEW = replace(JOINING, logs=("aB", "aB", ""), fenced="", compacts="1")
UPKEEP_CASES = [
    _case(
        "a merge is committed only under the fence that its file is named by",
        ZOMBIE,
        "I26",
    ),
    _case("nothing is merged above the last stable offset", ALONE, checks.COMMITTED),
    _case("a merged segment is of one leadership", AFTER, "I25"),
    Case(
        Mutant(
            "an append looks whether its id has expired once it has read the log",
            ((leader_log, "check_remembered", _nothing),),
        ),
        replace(EXPIRED, elections=0, fencings=0),
        "I11 idempotence",
    ),
    Case(
        Mutant(
            "a cut inside a merged segment leaves what both share, written anew",
            (
                (fetching, "part_to_keep", _nothing),
                (operations, "_cut_at", _with_all_of_it),
            ),
        ),
        CUT,
        "I10",
    ),
    _case(
        "a replica never runs ahead of the log start that was decided",
        RETENTION,
        "I16",
    ),
    _case(
        "nothing above the high watermark is deleted",
        replace(ALONE, merges="", has_retention=True),
        "I9",
    ),
    _case("a replica that has not finished K stays out of the ISR", JOINING, checks.JOINED),
    _case(
        "a decision waits until every member has finished the last one", JOINING, checks.FINISHED
    ),
    _case(
        "nothing above the high watermark is compacted",
        replace(ALONE, merges="", has_compaction=True),
        "I27",
    ),
    _case(
        "a follower takes its leader's counters with what it fetches",
        NEW,
        "I1 committed prefix",
    ),
    Case(
        Mutant(
            "a replica keeps a tombstone until it is decided that it goes",
            ((compacting._Compacting, "_rewritten", _with_tombstones),),
        ),
        replace(NEW, rounds=0),
        checks.CONTENT,
    ),
    Case(
        Mutant(
            "a follower that may have missed tombstones is made again",
            ((fetching, "check_tombstones", _nothing),),
        ),
        JOINING,
        checks.LAST_VALUES,
    ),
]
