"""Reading a folder of conformance vectors; one without vectors is told in a sentence."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class BrokenVectorsError(Exception):
    """A folder of vectors can't be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Vector:
    """One vector: a state, operations on it, and what Kafka answered."""

    id: str
    kind: str
    fact: str
    setup: dict[str, Any]
    steps: tuple[dict[str, Any], ...]
    expected: dict[str, Any]
    tags: tuple[str, ...] = ()
    file: str = field(compare=False, default="")


def load_vectors(folder: Path) -> list[Vector]:
    """Return the vectors of every JSON file in `folder`, in the order of the files."""
    if not folder.is_dir():
        raise BrokenVectorsError(
            f"there is no folder {folder}: name one that holds *.json files of vectors"
        )
    vectors = [
        _vector(file, each)
        for file in sorted(folder.glob("*.json"))
        for each in json.loads(file.read_text(encoding="utf-8"))
    ]
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


def _vector(file: Path, given: dict[str, Any]) -> Vector:
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
