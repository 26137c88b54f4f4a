"""Runs one vector on its adapter and compares what it answers, field by field.

The runner knows neither Kafka's rules nor ours. What an adapter can't answer fails; what does
not apply to us is left out under a reason of `not_applicable.toml`, and counted.
"""

import inspect
import keyword
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from kafka_on_spark.base.errors import (
    CorruptLogError,
    DuplicateSequenceError,
    InvalidTopicError,
    KafkaOnSparkError,
    KafkaStorageError,
    OutOfOrderSequenceError,
    ProducerFencedError,
)
from tests.conformance.applicability import Applicability
from tests.conformance.loading import Vector

# Where one error of ours stands for several of Kafka's, or has another name.
# fmt: off
KAFKA_NAMES: dict[type[KafkaOnSparkError], frozenset[str]] = {
    # A follower's batches that do not continue its log, however they fail to.
    CorruptLogError:  frozenset({"CORRUPT_MESSAGE", "UNEXPECTED_APPEND_OFFSET", "OFFSETS_OUT_OF_ORDER"}),
    # Kafka's code is not named as its exception is, from which ours have their names.
    DuplicateSequenceError:  frozenset({"DUPLICATE_SEQUENCE_NUMBER"}),
    InvalidTopicError:       frozenset({"INVALID_TOPIC_EXCEPTION"}),
    KafkaStorageError:       frozenset({"KAFKA_STORAGE_ERROR"}),
    OutOfOrderSequenceError: frozenset({"OUT_OF_ORDER_SEQUENCE_NUMBER"}),
    # Kafka's older name; a leader of Kafka's answers with it, its coordinator with the newer one.
    ProducerFencedError:     frozenset({"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"}),
}
# fmt: on


class CutOffError(Exception):
    """The rest of the vector does not apply to us; carries the reason's id."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class IllegalArgumentError(Exception):
    """A value that our types refuse to hold, by an assert; Kafka's ILLEGAL_ARGUMENT."""


class MismatchError(AssertionError):
    """The product does not do what the vector says."""


@dataclass(slots=True)
class Answer:
    """What a step answers, and which of its fields say nothing about us.

    Attributes:
        value: A bare value, or fields by name.
        left_out: Reasons by field; the key "" is the whole answer, "a.b" field b of field a.
        facts: Fields left out that a vector states and `kafka_memory` must know as well.
    """

    value: Any = None
    left_out: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Outcome:
    compared: list[tuple[int | str, str]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


class Adapter:
    """Translates one kind's words. An operation `x` is the method `op_x` with the step's arguments.

    A method returns a bare value, a dictionary of fields, an Answer, or raises an error of the
    product. `expected` returns what the state is after the last step. `SETS` names lists whose
    order says nothing here, wherever they stand; `CUT_OFF` operations at which a vector leaves our
    ground, with the reason.
    """

    SETS: frozenset[str] = frozenset()
    CUT_OFF: Mapping[str, str] = MappingProxyType({})

    @classmethod
    def for_setup(cls, setup: Mapping[str, Any]) -> "type[Adapter]":
        """Return the adapter for a setup, where a kind has more than one sort of them."""
        return cls

    @classmethod
    def for_vector(cls, vector: Vector) -> "type[Adapter]":
        """Return the adapter for a vector, where its tags say which Kafka's rule it states."""
        return cls.for_setup(vector.setup)

    @classmethod
    def sorts(cls) -> "tuple[type[Adapter], ...]":
        """Return every adapter that `for_setup` or `for_vector` may choose."""
        return (cls,)

    def expected(self) -> Mapping[str, Any] | Answer:
        """Return the state's fields, as far as vectors of the kind ask for them."""
        return {}

    def resolve(self, expectation: Any) -> Any:
        """Return what an expectation in words stands for now."""
        return expectation


def run(vector: Vector, adapter_class: type[Adapter], rules: Applicability) -> Outcome:
    """Run `vector`; return what was compared."""
    run = _Run(vector, rules)
    try:
        adapter_class = adapter_class.for_vector(vector)
        _check_arguments(adapter_class, "__init__", vector.setup, f"{vector.id}: setup")
        run.adapter = adapter_class(**vector.setup)
        for place, step in enumerate(vector.steps):
            run.step(place, step)
        answer = _as_answer(run.adapter.expected())
        run.compare_fields("expected", "", vector.expected, answer)
    except CutOffError as cut:
        run.leave_out(cut.reason)
    return run.outcome


class _Run:
    """One vector that runs. `place` is a step's number, or "expected"; `op` its operation."""

    def __init__(self, vector: Vector, rules: Applicability) -> None:
        self.vector, self.rules, self.outcome = vector, rules, Outcome()
        self.adapter = Adapter()

    def leave_out(self, reason: str) -> None:
        self.rules.check_reason(reason)
        self.outcome.left_out[reason] += 1

    def step(self, place: int, step: Mapping[str, Any]) -> None:
        op, adapter = step["op"], self.adapter
        arguments = {name: value for name, value in step.items() if name not in ("op", "expect")}
        where = f"{self.vector.id}: step {place} ({op})"
        reason = self.rules.reason_for_op(self.vector.kind, op)
        if reason is not None:
            self.leave_out(reason)
            return
        if op in adapter.CUT_OFF:
            raise CutOffError(adapter.CUT_OFF[op])
        operation = getattr(adapter, f"op_{op}", None)
        if operation is None:
            raise MismatchError(f"{where}: unknown operation of kind {self.vector.kind}")
        _check_arguments(type(adapter), f"op_{op}", arguments, where)
        answer = _call(operation, arguments, step, where)
        if "expect" not in step:
            return
        expect = step["expect"]
        if "" in answer.left_out:
            self.leave_out(answer.left_out[""])
        elif isinstance(expect, Mapping):
            self.compare_fields(place, op, expect, answer)
        else:
            self._check(place, op, "", adapter.resolve(expect), answer.value)

    def compare_fields(
        self, place: int | str, op: str, expect: Mapping[str, Any], answer: Answer
    ) -> None:
        where = f"{self.vector.id}: step {place} {op}"
        for name, value in expect.items():
            reason = answer.left_out.get(name) or self.rules.reason_for_field(
                self.vector.kind, name
            )
            if name in answer.facts and answer.facts[name] != value:
                raise MismatchError(
                    f"{where} {name}: the vector says {value!r}, and what is remembered of Kafka's"
                    f" leader {answer.facts[name]!r}"
                )
            if reason is not None:
                self.leave_out(reason)
                continue
            if not isinstance(answer.value, Mapping) or name not in answer.value:
                raise MismatchError(
                    f"{where}: no answer to the field {name!r}; it answers {answer.value!r}"
                )
            kept = self._without_left_out(name, value, answer)
            if value and kept == {}:
                continue
            found = (self.adapter.resolve(kept), answer.value[name])
            self._check(place, op, name, *(self._in_order(name, each) for each in found))

    def _in_order(self, name: str, value: Any) -> Any:
        """Return a field's value with its sets in ascending order."""
        if isinstance(value, Mapping):
            return {key: self._in_order(key, each) for key, each in value.items()}
        if name in self.adapter.SETS and isinstance(value, list):
            return sorted(value)
        return value

    def _without_left_out(self, name: str, value: Any, answer: Answer) -> Any:
        """Return an expectation without those fields of its own that are left out."""
        if not isinstance(value, Mapping):
            return value
        kept = {}
        for field_name, each in value.items():
            reason = answer.left_out.get(f"{name}.{field_name}", answer.left_out.get(field_name))
            if reason is None:
                kept[field_name] = self._without_left_out(field_name, each, answer)
            else:
                self.leave_out(reason)
        return kept

    def _check(self, place: int | str, op: str, name: str, expect: Any, actual: Any) -> None:
        self.outcome.compared.append((place, name))
        if not _is_met(expect, actual):
            raise MismatchError(
                f"{self.vector.id}: step {place} {op} {name}: Kafka says {expect!r}, here it is"
                f" {sorted(actual) if isinstance(actual, frozenset) else actual!r}"
                f"\n({self.vector.fact})"
            )


@cache
def argument_names(adapter_class: type[Adapter], method: str) -> frozenset[str]:
    """Return the names that a method takes; those that it hands on are its parent's."""
    names: set[str] = set()
    for owner in adapter_class.__mro__:
        if method not in vars(owner):
            continue
        parameters = inspect.signature(vars(owner)[method]).parameters.values()
        names |= {_word(each) for each in parameters if each.kind is not each.VAR_KEYWORD}
        if all(each.kind is not each.VAR_KEYWORD for each in parameters):
            break
    return frozenset(names - {"self"})


def _word(parameter: inspect.Parameter) -> str:
    """Return a vector's word for an argument: `from` is no name in Python, `from_` is."""
    return parameter.name.removesuffix("_")


def _named(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{name}_" if keyword.iskeyword(name) else name: each for name, each in arguments.items()
    }


def _check_arguments(
    adapter_class: type[Adapter], method: str, arguments: Mapping[str, Any], where: str
) -> None:
    unknown = arguments.keys() - argument_names(adapter_class, method)
    if unknown:
        raise MismatchError(f"{where}: unknown argument {', '.join(sorted(unknown))}")


def _call(
    operation: Any, arguments: Mapping[str, Any], step: Mapping[str, Any], where: str
) -> Answer:
    try:
        answer = _as_answer(operation(**_named(arguments)))
    except IllegalArgumentError:
        return Answer({"error": frozenset({"ILLEGAL_ARGUMENT"})})
    except KafkaOnSparkError as error:
        expect = step.get("expect")
        if not isinstance(expect, Mapping) or "error" not in expect:
            raise MismatchError(f"{where}: refused with {type(error).__name__}: {error}") from error
        return Answer({"error": kafka_names(error)})
    if isinstance(answer.value, Mapping):
        answer.value = {"error": "NONE", **answer.value}
    elif answer.value is None:
        answer.value = {"error": "NONE"} if isinstance(step.get("expect"), Mapping) else None
    return answer


def kafka_names(error: KafkaOnSparkError) -> frozenset[str]:
    if type(error) in KAFKA_NAMES:
        return KAFKA_NAMES[type(error)]
    words = re.findall("[A-Z][a-z]*", type(error).__name__.removesuffix("Error"))
    return frozenset({"_".join(words).upper()})


def _as_answer(value: Any) -> Answer:
    return value if isinstance(value, Answer) else Answer(value)


def _is_met(expect: Any, actual: Any) -> bool:
    """Return whether `actual` is what was expected; objects are met by their subsets."""
    if isinstance(actual, frozenset):  # any of an error's names
        return expect in actual
    if isinstance(expect, Mapping):
        return isinstance(actual, Mapping) and all(
            name in actual and _is_met(value, actual[name]) for name, value in expect.items()
        )
    return type(expect) is type(actual) and bool(expect == actual)
