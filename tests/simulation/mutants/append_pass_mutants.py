"""Rules of appends that control, and of full disks, switched off one at a time: the simulation must see each."""

from typing import Any

from kafka_on_spark.controller import brokers, controller_loop, probes
from kafka_on_spark.controller.brokers import GoneOn, fence_broker, leave_isrs
from kafka_on_spark.controller.lease import LeaseWatch
from kafka_on_spark.controller.probes import ProbeResult, Silence
from kafka_on_spark.metadata.image import ControllerResult
from kafka_on_spark.produce import append_watch
from kafka_on_spark.produce.append_watch import AppendWatch
from tests.simulation.checks.controllers import ENOUGH_HAVE_MET, LAST_MEMBER_ANSWERS
from tests.simulation.mutants.protocol_mutants import Mutant, _no, _none, _nothing


def _over(self: Any, image: Any) -> bool:
    self.seen = image.controller
    return True


def _for_all(image: Any, failing: Any, only: Any, answering: Any, why: str) -> Any:
    return leave_isrs(image, failing, dict(image.partitions()), answering, why)


def _without_a_filter(image: Any, failing: Any, only: Any, answering: Any, why: str) -> Any:
    fenced = [fence_broker(image, each, words) for each, words in failing.items()]
    return ControllerResult([record for each in fenced for record in each.records], GoneOn())


def _any_broker_answers(image: Any, failing: Any, only: Any, answering: Any, why: str) -> Any:
    return leave_isrs(image, failing, only, frozenset(image.brokers), why)


def _never(*arguments: Any) -> Any:
    return ControllerResult([], GoneOn())


def _by_count(self: Any, session_ms: int) -> bool:
    return bool(self.count >= probes.PROBES_MIN)


def _not_readmitted(*arguments: Any, **named: Any) -> float:
    return float("-inf")


def _in_a_row(before: Any, began_ms: int, ended_ms: int, error: str, session_ms: int) -> Silence:
    since_ms = ended_ms if before is None else before.since_ms
    return Silence(since_ms, ended_ms, 1 if before is None else before.count + 1, error)


UNCONTROLLED_MUTANTS = [
    Mutant(
        "under a live lease nothing is decided",
        ((LeaseWatch, "is_over", _over),),
        seed=34,
        invariant="S1 no append decides under a live lease",
    ),
    Mutant(
        "only what is waited for is decided",
        ((append_watch, "leave_isrs", _for_all),),
        invariant="S3 only what is waited for is decided",
    ),
    Mutant(
        "an append's pass has a filter",
        ((append_watch, "leave_isrs", _without_a_filter),),
        invariant="S2 an append gives up nothing",
    ),
    Mutant(
        "the ISR keeps its minimum",
        ((brokers, "min_isr", _none),),
        invariant="S4 the ISR keeps its minimum",
    ),
    Mutant(
        "remaining brokers answer",
        ((append_watch, "leave_isrs", _any_broker_answers),),
        seed=2,
        invariant="S5 remaining brokers answer",
    ),
    Mutant(
        "the session must be over",
        ((Silence, "is_over", _by_count),),
        seed=21,
        invariant="S7 no other process has heard of it",
    ),
    Mutant(
        "what was known long ago counts no more",
        ((AppendWatch, "_is_late", _no),),
        seed=86,
        invariant="S5 remaining brokers answer",
    ),
    Mutant(
        "a broker that others hear is not silent",
        ((append_watch, "reached_by_others", _nothing),),
        seed=10,
        invariant="S7 no other process has heard of it",
    ),
    Mutant(
        "a member that another process has readmitted is not taken out again",
        ((append_watch, "readmitted_at_ms", _not_readmitted),),
        seed=14,
        invariant="S8 no pass takes out again what another readmitted",
    ),
    Mutant(
        "an append goes on without a disk",
        ((append_watch, "leave_isrs", _never),),
        seed=1,
        invariant="L6 an append goes on without a disk",
    ),
]

SOLE_MUTANTS = [
    Mutant(
        "a process that was frozen begins again",
        ((probes, "after_failure", _in_a_row),),
        seed=23,
        invariant="S6 silent over all of its session",
    ),
    Mutant(
        "its own missing permission counts for nothing",
        ((ProbeResult, "is_denied", property(_no)),),
        seed=6,
        invariant="S6 silent over all of its session",
    ),
]
"""Rules that show where nobody else brings news."""

FILLING_MUTANTS = [
    Mutant(
        "the last member of an ISR is not fenced for want of room",
        (
            (brokers, "is_last_in_sync", _no),
            (controller_loop, "is_last_in_sync", _no),
        ),
        seed=8,
        invariant=LAST_MEMBER_ANSWERS,
    ),
    Mutant(
        "what one host has met, and the controller has not, fences nobody",
        ((controller_loop, "HOSTS_ENOUGH", 1),),
        invariant=ENOUGH_HAVE_MET,
    ),
    Mutant(
        "partitions elect at once",
        ((append_watch, "note_refused", _never),),
        invariant="L6 an append goes on without a disk",
    ),
]
"""Rules of roots that have no room."""
