"""Clusters whose metadata log has several voters."""

import pytest

from tests.cluster.folders import quick_folder


@pytest.fixture
def folder():
    with quick_folder() as folder:
        yield folder
