"""Reading a folder of conformance vectors. A folder or file that is not one is told in a sentence."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_KEYS = {"id", "kind", "source", "fact", "setup", "input", "expected"}
_OPTIONAL_KEYS = {"derived", "tags"}
_ID = re.compile(r"[0-9]{2}_[a-z_]+\.[a-z_0-9]+\.[0-9]{3,}")


class BrokenVectorsError(Exception):
    """A folder of vectors can't be used; the message says which file and why."""


@dataclass(frozen=True, slots=True)
class Vector:
    """One vector: a state, operations on it, and what Kafka answered.

    Attributes:
        id: Unique over all files.
        kind: Selects the adapter.
        fact: The rule, in words.
        setup: State before the first step.
        steps: Operations in order, each with what it answers under `expect`.
        expected: State after the last step.
        tags: Whose rule it states, as "pre-KIP-996".
        file: Name of its file.
    """

    id: str
    kind: str
    fact: str
    setup: dict[str, Any]
    steps: tuple[dict[str, Any], ...]
    expected: dict[str, Any]
    tags: tuple[str, ...] = ()
    file: str = field(compare=False, default="")


def load_vectors(folder: Path) -> list[Vector]:
    """Return the vectors of every JSON file in `folder`, in the order of the files.

    Raises:
        BrokenVectorsError: There is no such folder, no vector in it, or a file is broken.
    """
    if not folder.is_dir():
        raise BrokenVectorsError(
            f"there is no folder {folder}: name one that holds *.json files of vectors"
        )
    vectors = [vector for file in sorted(folder.glob("*.json")) for vector in _load_file(file)]
    if not vectors:
        raise BrokenVectorsError(f"no vectors in {folder}: it must hold *.json files of vectors")
    seen: dict[str, str] = {}
    for vector in vectors:
        if vector.id in seen:
            raise BrokenVectorsError(
                f"vector {vector.id} stands in {seen[vector.id]} and in {vector.file}:"
                " ids must be unique"
            )
        seen[vector.id] = vector.file
    return vectors


def _load_file(file: Path) -> list[Vector]:
    try:
        array = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise BrokenVectorsError(f"{file} is not readable as JSON: {error}") from error
    if not isinstance(array, list):
        raise BrokenVectorsError(f"{file} holds {type(array).__name__}, not a list of vectors")
    return [_vector(file, place, each) for place, each in enumerate(array)]


def _vector(file: Path, place: int, given: Any) -> Vector:
    problem = _problem_of(given)
    if problem is not None:
        raise BrokenVectorsError(f"{file}: element {place} is not a vector: {problem}")
    return Vector(
        id=given["id"],
        kind=given["kind"],
        fact=given["fact"],
        setup=given["setup"],
        steps=tuple(_step(each) for each in given["input"]["steps"]),
        expected=given["expected"],
        tags=tuple(given.get("tags", ())),
        file=file.name,
    )


def _step(given: dict[str, Any]) -> dict[str, Any]:
    """Return a step whose expectation is its `expect`, also where it is given as arguments."""
    if given["op"] == "expect_no_request":
        return {"op": given["op"], "expect": []}
    if given["op"] != "expect_request":
        return given
    told = {name: each for name, each in given.items() if name not in ("op", "api")}
    return {"op": given["op"], "api": given["api"], "expect": told}


def _problem_of(given: Any) -> str | None:
    """Return why `given` breaks schema/vector.schema.json, or None."""
    return _problem_of_keys(given) or _problem_of_steps(given["input"])


def _problem_of_keys(given: Any) -> str | None:
    if not isinstance(given, dict):
        return "it is not an object"
    if missing := _KEYS - given.keys():
        return f"it lacks {', '.join(sorted(missing))}"
    if unknown := given.keys() - _KEYS - _OPTIONAL_KEYS:
        return f"it has {', '.join(sorted(unknown))} as well"
    if not isinstance(given["id"], str) or not _ID.fullmatch(given["id"]):
        return f"its id {given['id']!r} is not like 01_area.prefix.001"
    if not isinstance(given["setup"], dict) or not isinstance(given["expected"], dict):
        return "setup and expected must be objects"
    return None


def _problem_of_steps(given: Any) -> str | None:
    steps = given.get("steps") if isinstance(given, dict) else None
    if not isinstance(steps, list) or not steps:
        return "it has no steps"
    if not all(isinstance(step, dict) and isinstance(step.get("op"), str) for step in steps):
        return "a step has no op"
    return None
