"""The runner itself: it sees a wrong answer, an unknown word and a bad folder; reasons are sound."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kinds import ADAPTERS
from tests.conformance.running import (
    VECTORS,
    NotApplicableError,
    VectorError,
    load_reasons,
    load_vectors,
    matches,
    run,
)

ROOT = Path(__file__).parents[2]
REASONS = load_reasons()
FIELDS = frozenset(REASONS.fields)


def passing(kind: str) -> dict[str, Any]:
    """Return a vector of `kind` that applies to its end and asserts something."""
    for vector in load_vectors(VECTORS):
        if vector["kind"] == kind and not all(expected == {} for expected in expectations(vector)):
            try:
                run(vector, ADAPTERS, FIELDS)
            except NotApplicableError:
                continue
            return vector
    raise AssertionError(f"no vector of the kind {kind} applies")


def expectations(vector: dict[str, Any]) -> list[Any]:
    steps = vector["input"]["steps"]
    return [*(step["expect"] for step in steps if "expect" in step), vector["expected"]]


def other(value: Any) -> Any:
    """Return an expectation that differs from `value` in every part."""
    if isinstance(value, dict):
        return {name: other(part) for name, part in value.items()}
    if isinstance(value, bool):
        return not value
    return "something else"


@pytest.mark.parametrize("kind", sorted(set(ADAPTERS) - {"fetch_state"}))
def test_a_wrong_answer_of_each_kind_is_seen(kind):
    vector = copy.deepcopy(passing(kind))
    for step in vector["input"]["steps"]:
        if "expect" in step:
            step["expect"] = other(step["expect"])
    vector["expected"] = other(vector["expected"])

    with pytest.raises(AssertionError):
        run(vector, ADAPTERS, FIELDS)


@pytest.mark.parametrize("kind", sorted(ADAPTERS))
def test_an_unknown_operation_is_told(kind):
    vector = copy.deepcopy(next(v for v in load_vectors(VECTORS) if v["kind"] == kind))
    vector["input"]["steps"] = [{"op": "no_such_thing"}]

    with pytest.raises((VectorError, NotApplicableError)):
        run(vector, ADAPTERS)


def test_an_unknown_kind_is_told():
    vector = {"id": "x", "kind": "levitation", "setup": {}, "input": {"steps": []}, "expected": {}}

    with pytest.raises(VectorError, match="levitation"):
        run(vector, ADAPTERS)


@pytest.mark.parametrize(
    "content",
    [
        None,
        "{",
        "{}",
        "[1]",
        '[{"id": "x"}]',
        '[{"id":1,"kind":1,"setup":1,"input":1,"expected":1}]',
    ],
)
def test_a_folder_without_vectors_is_one_sentence(tmp_path, content):
    if content is not None:
        (tmp_path / "01.json").write_text(content)

    with pytest.raises(VectorError) as told:
        load_vectors(tmp_path)

    assert len(str(told.value).splitlines()) == 1


def test_vectors_of_a_folder_come_sorted(tmp_path):
    vectors = [
        {"id": name, "kind": "isr", "setup": {}, "input": {"steps": []}, "expected": {}}
        for name in ("b", "a")
    ]
    (tmp_path / "01.json").write_text(json.dumps(vectors))

    assert [each["id"] for each in load_vectors(tmp_path)] == ["a", "b"]


MATCHES = [
    ({"a": 1}, {"a": 1, "b": 2}, True),
    ({"a": 1}, {"a": 2}, False),
    ({"a": None}, {}, False),
    ({"a": None}, {"a": None}, True),
    ([1, 2], [1, 2], True),
    ([1], [1, 2], False),
    ([], None, False),
    (None, None, True),
    (None, 0, False),
    (1, True, False),
    (False, 0, False),
]


@pytest.mark.parametrize("expected, found, does", MATCHES)
def test_of_an_object_only_the_named_parts_count(expected, found, does):
    assert matches(expected, found) is does


@pytest.mark.parametrize("name", sorted(REASONS.by_name))
def test_each_reason_is_used_and_names_a_test_that_there_is(name):
    reason = REASONS.by_name[name]
    sources = "".join(
        file.read_text(encoding="utf-8")
        for file in [*(Path(__file__).parent / "adapters").glob("*.py")]
    )
    uses = [*REASONS.kinds.values(), *REASONS.fields.values()]

    assert name in uses or f'"{name}"' in sources
    if reason.test is not None:
        file, _, test = reason.test.partition("::")
        assert f"def {test}" in (ROOT / file).read_text(encoding="utf-8")
