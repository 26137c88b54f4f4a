"""What Kafka's tests state and Kafka's classes answered, asked of the production code."""

import pytest

from tests.conformance.kinds import ADAPTERS
from tests.conformance.running import NotApplicableError, load_reasons, run

REASONS = load_reasons()


def test_vector(vector):
    if vector["kind"] in REASONS.kinds:
        pytest.skip(REASONS.by_name[REASONS.kinds[vector["kind"]]].text)
    try:
        run(vector, ADAPTERS, frozenset(REASONS.fields))
    except NotApplicableError as parting:
        pytest.skip(REASONS.by_name[parting.reason].text)
