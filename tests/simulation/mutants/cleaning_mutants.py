"""Rules of cleaning, switched off one at a time by patches that the simulation must see.

That a cleaner lists first, reads the table second, and again before it deletes, does no harm to be
without: a path that an older state removed is never added again (I26), so what that state allows to
go may go for ever. tests/log/test_unnamed_files.py has all small cases.
"""

from dataclasses import replace
from typing import Any

from kafka_on_spark.controller import upkeep
from kafka_on_spark.log import file_deleter, operations
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.log.unnamed_files import Fate, FoundFile, TableFiles, judge
from kafka_on_spark.metadata.image import ControllerResult
from kafka_on_spark.produce import leader_log
from tests.simulation.checks import orphans
from tests.simulation.mutants.protocol_mutants import Mutant, _nothing


def _goes_unless_named(file: FoundFile, table: TableFiles, times: Any) -> Fate:
    fate = judge(file, table, times)
    return Fate.GOES if fate is Fate.ORPHAN else fate


def _fenced_at_last(file: FoundFile, table: TableFiles, times: Any) -> Fate:
    fence = None if table.fence is None else table.fence + 1
    return judge(file, replace(table, fence=fence), times)


def _no_files(state: Any) -> frozenset[str]:
    return frozenset()


def _nothing_is_raised(image: Any, seen: Any) -> ControllerResult[list[Any]]:
    return ControllerResult([], [])


def _as_staged(segments: Any, batch: Any, leader: Any, leader_epoch: Any) -> Any:
    return batch.staged


CLEANING_MUTANTS = [
    Mutant(
        "a file of the current epoch that no log names is never deleted",
        ((file_deleter, "judge", _goes_unless_named),),
        seed=2,
        invariant="I15 integrity",
    ),
    Mutant(
        "the fence is above the epoch in the name of what goes",
        ((file_deleter, "judge", _fenced_at_last),),
        seed=2,
        invariant="I15 integrity",
    ),
    Mutant(
        "what the table names stays",
        ((file_deleter, "files_of", _no_files),),
        seed=1,
        invariant="I26 nothing named is deleted",
    ),
    Mutant(
        "a follower names what it copies by its own fence",
        ((Batch, "named_under", lambda batch, leader_epoch: batch),),
        seed=8,
        invariant="I26",
    ),
    Mutant(
        "where too many orphans are, the leader epoch is raised, and they go",
        ((upkeep, "raise_epochs_over_orphans", _nothing_is_raised),),
        seed=2,
        invariant=orphans.GONE,
    ),
    Mutant(
        "an append that goes on under another leadership goes on under other names",
        ((leader_log, "place_files", _as_staged), (operations, "check_named_under", _nothing)),
        seed=2,
        invariant="I26",
    ),
]
