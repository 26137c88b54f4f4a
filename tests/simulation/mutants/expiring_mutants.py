"""Rules of expiry, switched off one at a time: each is seen by name.

Which appends may be a retry under an id that has expired is one rule here; tests/produce/test_idempotence.py
has each of its cases."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kafka_on_spark.controller import controller_loop
from kafka_on_spark.groups import offsets
from kafka_on_spark.log.producer_state import producer_fenced
from kafka_on_spark.metadata import image, metadata_service
from kafka_on_spark.metadata.image import ControllerResult
from kafka_on_spark.metadata.records import RemoveProducerRecord
from kafka_on_spark.produce import append as append_of_a_process
from kafka_on_spark.produce import idempotence, leader_log
from tests.simulation.checks import expiry as checks
from tests.simulation.checks.invariants import ONE_CLOCK
from tests.simulation.faults.expiring_plans import ahead, expiring
from tests.simulation.mutants.protocol_mutants import Mutant, _no
from tests.simulation.plan import Plan


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
        seed=3,
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
        seed=7,
    ),
    _missing(
        checks.ABOVE,
        "an id that comes back says its first sequence",
        (idempotence, "begin_append", _without_first_sequence),
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
        seed=28,
    ),
]
