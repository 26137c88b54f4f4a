"""Runs one conformance vector: its steps through an adapter, each answer against what Kafka gave.

An adapter translates between the vector's words and the production code, and holds no rule: an
operation is a method of its name, takes the step's arguments and returns the answer. Where a
step is about something that this product does not have, it raises NotApplicableError with the name
of a reason in not_applicable.toml; the steps before it have been checked by then.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_on_spark.errors import ERROR_NAME_BY_CODE, ProtocolError

HERE = Path(__file__).parent
VECTORS = HERE / "vectors"
REASONS = HERE / "not_applicable.toml"


class NotApplicableError(Exception):
    """The vector is about something else than this product; `reason` is a name in REASONS."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class VectorError(Exception):
    """A vector can't be run: it is no vector, or no adapter knows its kind or operation."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why vectors do not apply, and the test that covers what this product has instead."""

    text: str
    test: str | None = None


class Adapter:
    """Translates one vector. A subclass has a method an operation, and `state`."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        self.setup = setup

    def state(self) -> Mapping[str, Any]:
        """Return what stands after the last step, in the vector's words."""
        return {}


def load_vectors(folder: Path) -> list[dict[str, Any]]:
    """Return the vectors of all files in `folder`, sorted by id.

    Raises:
        VectorError: There are none, or a file is not what it should be.
    """
    vectors = []
    files = sorted(folder.glob("*.json"))
    for file in files:
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            vectors += [_checked(each) for each in found]
        except (ValueError, TypeError, KeyError) as error:
            raise VectorError(f"{file} is not a file of vectors: {error!r}") from error
    if not vectors:
        raise VectorError(f"{folder} holds no vectors (*.json): name another with --vectors")
    return sorted(vectors, key=lambda each: str(each["id"]))


def _checked(vector: dict[str, Any]) -> dict[str, Any]:
    for name in ("id", "kind", "setup", "input", "expected"):
        vector[name]
    for step in vector["input"]["steps"]:
        step["op"]
    return vector


@dataclass(frozen=True, slots=True)
class Reasons:
    """What does not apply, and why.

    Attributes:
        by_name: The reasons.
        kinds: The name of the reason of each kind that never applies.
        fields: The same of parts of answers.
    """

    by_name: Mapping[str, Reason]
    kinds: Mapping[str, str]
    fields: Mapping[str, str]


def load_reasons(file: Path = REASONS) -> Reasons:
    """Return what REASONS says."""
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    by_name = {name: Reason(**each) for name, each in content["reasons"].items()}
    return Reasons(by_name, content["kinds"], content["fields"])


def run(
    vector: Mapping[str, Any],
    adapters: Mapping[str, type[Adapter]],
    absent_fields: frozenset[str] = frozenset(),
) -> None:
    """Run a vector. `absent_fields`: parts of answers that nothing here has, so not compared.

    Raises:
        AssertionError: An answer is not Kafka's.
        NotApplicableError: Here it parts from what this product has.
        VectorError: No adapter knows the kind or an operation.
    """
    kind = vector["kind"]
    if kind not in adapters:
        raise VectorError(f"no adapter knows the kind {kind!r}")
    adapter = adapters[kind](vector["setup"])
    for number, step in enumerate(vector["input"]["steps"], 1):
        answer = answer_to(adapter, step)
        if "expect" in step:
            place = f"{vector['id']} step {number} {step}"
            expected = _without(step["expect"], absent_fields)
            assert matches(expected, answer), f"{place}: answered {answer}"
    found = adapter.state()
    expected = _without(vector["expected"], absent_fields)
    assert matches(expected, found), f"{vector['id']} ends with {dict(found)}"


def _without(expected: Any, names: frozenset[str]) -> Any:
    if not isinstance(expected, Mapping):
        return expected
    return {name: value for name, value in expected.items() if name not in names}


def answer_to(adapter: Adapter, step: Mapping[str, Any]) -> Any:
    """Return what the step's operation answers; a refusal is ``{"error": NAME}``."""
    operation = getattr(adapter, step["op"], None)
    if operation is None or step["op"].startswith("_") or step["op"] in ("setup", "state_of"):
        raise VectorError(f"the adapter {type(adapter).__name__} has no operation {step['op']!r}")
    arguments = {
        name: value for name, value in step.items() if name not in ("op", "expect", "note")
    }
    try:
        return operation(**arguments)
    except ProtocolError as error:
        return {"error": kafka_name(error)}


def kafka_name(error: ProtocolError) -> str:
    """Return Kafka's name of an error."""
    words = ERROR_NAME_BY_CODE[error.code]
    spaced = "".join(f"_{each}" if each.isupper() else each for each in words)
    return spaced.strip("_").upper()


def matches(expected: Any, found: Any) -> bool:
    """Return whether `found` is what is expected: of an object, only the named parts count."""
    if isinstance(expected, Mapping):
        return isinstance(found, Mapping) and all(
            name in found and matches(value, found[name]) for name, value in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(found, list)
            and len(found) == len(expected)
            and all(map(matches, expected, found))
        )
    return bool(expected == found) and isinstance(expected, bool) == isinstance(found, bool)
