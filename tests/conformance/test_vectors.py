"""Kafka's conformance vectors against the production code: one test a vector."""

import pytest

from tests.conformance.adapters import ADAPTERS
from tests.conformance.applicability import read_rules
from tests.conformance.runner import run

RULES = read_rules()


def test_vector(vector, record_property):
    reason = RULES.reason_for_vector(vector.id, vector.kind)
    if reason is not None:
        record_property("conformance", (vector.file, vector.kind, {reason.id: 1}))
        pytest.skip(f"{reason.id}: {reason.why}")
    try:
        assert vector.kind in ADAPTERS, f"{vector.id}: unknown kind {vector.kind}"
        outcome = run(vector, ADAPTERS[vector.kind], RULES)
    except Exception:  # of whatever type: it is counted, and fails the test
        record_property("conformance", (vector.file, vector.kind, {}))
        raise
    record_property("conformance", (vector.file, vector.kind, dict(outcome.left_out)))
    if not outcome.compared:
        whys = [f"{each}: {RULES.reasons[each].why}" for each in sorted(outcome.left_out)]
        pytest.skip("; ".join(whys) or "the vector asserts nothing")
