"""Rules of expiry and of the producers file, switched off one at a time: each is seen by name."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kafka_on_spark.controller import controller_loop
from kafka_on_spark.groups import offsets
from kafka_on_spark.log import unnamed_files
from kafka_on_spark.log.producer_state import producer_fenced, producers_file_name
from kafka_on_spark.log.unnamed_files import Fate
from kafka_on_spark.metadata import image, metadata_service
from kafka_on_spark.metadata.image import ControllerResult
from kafka_on_spark.metadata.records import RemoveProducerRecord
from kafka_on_spark.produce import append as append_of_a_process
from kafka_on_spark.produce import idempotence, leader_log
from tests.simulation.checks import expiry as checks
from tests.simulation.checks import producers
from tests.simulation.checks.invariants import ONE_CLOCK
from tests.simulation.faults.expiring_plans import ahead, damaged, expiring, late, returning
from tests.simulation.mutants.protocol_mutants import Mutant, _no
from tests.simulation.plan import Plan
from tests.simulation.world import replica_log


def _only_older(known: Mapping[str, int], producer_id: str, producer_epoch: int) -> None:
    newest = known.get(producer_id, -1)
    if newest > producer_epoch:
        raise producer_fenced(producer_id, producer_epoch, newest)


def _own(own_ms: int, root_ms: int, newest_ms: int) -> int:
    return own_ms


def _latest(own_ms: int, root_ms: int, newest_ms: int) -> int:
    return max(own_ms, root_ms, newest_ms)


def _its_own(own_ms: int, root_ms: int | None, newest_ms: int, ahead_max_ms: int) -> int:
    return own_ms


def _from_the_newest_on(own_ms: int, root_ms: int | None, newest_ms: int, ahead_max_ms: int) -> int:
    assert root_ms is not None
    return min(max(own_ms, newest_ms), root_ms + ahead_max_ms)


def _ahead_of_its_time(seen: Any, now_ms: int) -> Any:
    return _EXPIRE(seen, now_ms + 10_000)


class _AsLookedAt:
    """The decision on the newest image is the one on the image that was looked at."""

    def __init__(self) -> None:
        self._looked_at: Any = None

    def __call__(self, seen: Any, now_ms: int) -> Any:
        decided, self._looked_at = self._looked_at, None
        if decided is not None:
            return decided
        result = _EXPIRE(seen, now_ms)
        if result.records:
            self._looked_at = result
        return result


_EXPIRE = controller_loop.expire


def _lower_epochs(draft: Any, record: RemoveProducerRecord) -> None:
    before = draft.expired_epoch
    _REMOVE(draft, record)
    draft.expired_epoch = before


_REMOVE = image._remove_producer


def _as_ever(seen: Any, append: Any, mine: Any) -> Any:
    return _BEGIN(seen, append, mine) if mine is None else ControllerResult([], mine)


def _without_first_sequence(seen: Any, append: Any, mine: Any) -> Any:
    result = _BEGIN(seen, append, mine)
    return replace(result, records=[replace(each, first_sequence=None) for each in result.records])


_BEGIN = idempotence.begin_append


def _not_once_it_came_back(seen: Any, append: Any, mine: Any) -> bool:
    return append.producer_id not in seen.producers and _MAY_STAND(seen, append, mine)


def _but_for_older_runs(seen: Any, append: Any, mine: Any) -> bool:
    return _MAY_STAND(seen, append, mine and replace(mine, is_only=True))


def _but_for_newer_runs(seen: Any, append: Any, mine: Any) -> bool:
    expired = seen.expired_producers.get(append.producer_id)
    if mine is not None and expired is not None:
        mine = replace(mine, producer_epoch=expired)
    return _MAY_STAND(seen, append, mine)


def _but_for_its_own(seen: Any, append: Any, mine: Any) -> bool:
    return _MAY_STAND(seen, append, mine and replace(mine, last=-1))


_MAY_STAND = idempotence._may_stand_forgotten


def _empty_if_damaged(files: Any, table: Any, number: int) -> Any:
    return table.written[number][1] if number and table.has_producers(files, number) else {}


def _by_its_number(files: Any, table: Any, number: int) -> Any:
    content = files.get(producers_file_name(number)) if number else None
    return table.late[content] if content in table.late else _READ(files, table, number)


_READ = replica_log.read_producers


def _but_the_state(self: Any) -> None:
    self._producers = (0, {})


def _at_or_below(number: int, table: Any, times: Any) -> Fate:
    is_old = table.producers is not None and number <= table.producers
    return Fate.GOES if is_old else Fate.STAYS


def _missing(
    invariant: str,
    rule: str,
    *patches: tuple[Any, str, Any],
    plan: Callable[[int], Plan] = expiring,
    seed: int = 0,
) -> Mutant:
    return Mutant(rule, patches, seed, invariant, plan)


EXPIRING_MUTANTS = [
    _missing(
        checks.REFUSED,
        "a run whose id has expired appends nothing",
        (idempotence, "begin_append", _as_ever),
        (idempotence, "check_not_fenced", _only_older),
        (append_of_a_process, "check_not_fenced", _only_older),
        (leader_log, "check_not_fenced", _only_older),
    ),
    _missing(
        "I11",
        "an id that comes back begins above all that have expired",
        (image, "_REPLAY", {**image._REPLAY, RemoveProducerRecord: _lower_epochs}),
    ),
    _missing(
        checks.ABOVE,
        "what may be a retry under an id that has expired is refused",
        (idempotence, "_may_stand_forgotten", _no),
        plan=returning,
    ),
    _missing(
        "H3 one offset a value",
        "what may be a retry from before an id came back is refused",
        (idempotence, "_may_stand_forgotten", _not_once_it_came_back),
        plan=late,
        seed=3,
    ),
    _missing(
        checks.ABOVE,
        "an id that comes back says its first sequence",
        (idempotence, "begin_append", _without_first_sequence),
    ),
    _missing(
        checks.ABOVE,
        "a run goes on above what it has tried itself",
        (idempotence, "_may_stand_forgotten", _but_for_its_own),
        seed=20,
    ),
    _missing(
        checks.ABOVE,
        "a run does not go on where a newer one has had its id before it expired",
        (idempotence, "_may_stand_forgotten", _but_for_newer_runs),
        plan=late,
        seed=499,
    ),
    _missing(
        checks.ABOVE,
        "a run does not go on where an older one may be ahead of it",
        (idempotence, "_may_stand_forgotten", _but_for_older_runs),
        plan=late,
        seed=1100,
    ),
    _missing(
        checks.SILENT,
        "a run renews its id before it expires",
        (idempotence, "needs_renewal", _no),
        seed=9,
    ),
    _missing(
        checks.SILENT,
        "a group that stands still saves again where it is",
        (offsets, "needs_saving_again", _no),
    ),
    _missing(
        ONE_CLOCK,
        "the time of a commit is held to the root's clock, and to the newest commit",
        (metadata_service, "stamp_ms", _its_own),
        plan=ahead,
    ),
    _missing(
        ONE_CLOCK,
        "the time of the newest commit is no floor where the root's clock is before it",
        (metadata_service, "stamp_ms", _from_the_newest_on),
        plan=ahead,
    ),
    _missing(
        checks.SILENT,
        "what is too old is so by the earliest of three clocks",
        (metadata_service, "too_old_by_ms", _latest),
        plan=ahead,
        seed=2,
    ),
    _missing(
        checks.SILENT,
        "nothing expires before its time",
        (controller_loop, "expire", _ahead_of_its_time),
    ),
    _missing(
        checks.SILENT,
        "a controller's clock that is ahead has nothing expire",
        (metadata_service, "too_old_by_ms", _own),
        seed=3,
    ),
    _missing(
        checks.SILENT,
        "what was renewed since the look does not expire",
        (controller_loop, "expire", _AsLookedAt()),
        seed=15,
    ),
    _missing(
        producers.KEPT,
        "a damaged or lost producers file is no empty one",
        (replica_log, "read_producers", _empty_if_damaged),
        plan=damaged,
        seed=3,
    ),
    _missing(
        producers.KEPT,
        "a commit says what is in its producers file, and not its number alone",
        (replica_log, "read_producers", _by_its_number),
        plan=damaged,
        seed=2,
    ),
    _missing(
        producers.CARRIED_ON,
        "a log that is opened anew reads its producers file again",
        (replica_log.SimulatedReplicaLog, "_forget", _but_the_state),
    ),
    _missing(
        "I26 nothing named is deleted",
        "the producers file that counts is not cleaned",
        (unnamed_files, "_judge_producers", _at_or_below),
    ),
]
