"""Processes on one log, without a cluster yet."""

import pytest

from tests.controller.controlled import World


@pytest.fixture
def world():
    return World()
