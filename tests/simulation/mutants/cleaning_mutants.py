"""Rules of cleaning, switched off one at a time by patches that the simulation must see.

That a cleaner lists first and reads the table second is no mutant here: by the other rules a file
that an older state of the table allows to go may go for ever, so the order alone does no harm.
"""

from dataclasses import replace
from typing import Any

from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.log.cleaning import Fate, FoundFile, TableFiles, Verdict, judge
from kafka_on_spark.service.append import placing
from kafka_on_spark.service.maintain import cleaning
from tests.simulation.mutants.protocol_mutants import Mutant, _nothing


def _goes_unless_named(file: FoundFile, table: TableFiles, times: Any) -> Verdict:
    verdict = judge(file, table, times)
    return Verdict(Fate.GOES) if verdict.fate is Fate.ORPHAN else verdict


def _fenced_at_last(file: FoundFile, table: TableFiles, times: Any) -> Verdict:
    fence = None if table.fence is None else table.fence + 1
    return judge(file, replace(table, fence=fence), times)


def _no_files(state: Any) -> frozenset[str]:
    return frozenset()


def _as_staged(segments: Any, part: Any, leader: Any, leader_epoch: Any) -> Any:
    return part.batch


CLEANING_MUTANTS = [
    Mutant(
        "a file of the current epoch that no log names is never deleted",
        ((cleaning, "judge", _goes_unless_named),),
    ),
    Mutant(
        "the fence is above the epoch in the name of what goes",
        ((cleaning, "judge", _fenced_at_last),),
    ),
    Mutant(
        "what the table names stays",
        ((cleaning, "files_of", _no_files),),
    ),
    Mutant(
        "a follower names what it copies by its own fence",
        ((Batch, "named_under", lambda batch, leader_epoch: batch),),
    ),
    Mutant(
        "an append that goes on under another leadership goes on under other names",
        ((placing, "place_files", _as_staged), (operations, "check_named_under", _nothing)),
    ),
]
