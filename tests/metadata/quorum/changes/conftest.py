"""One voter, which tests have grow, and a process that knows it."""

import pytest

from tests.voter_fakes import MemoryQuorum


@pytest.fixture
def quorum():
    return MemoryQuorum(1)


@pytest.fixture
def process(quorum):
    return quorum.process()
