"""Three voters, and a process that knows them."""

import pytest

from tests.voter_fakes import MemoryQuorum


@pytest.fixture
def quorum():
    return MemoryQuorum()


@pytest.fixture
def process(quorum):
    """A process that has read what is committed: each voter has the first no-op."""
    process = quorum.process()
    process.decide("first")
    return process
