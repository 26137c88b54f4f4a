"""Each table that a test of this folder leaves behind is opened by delta-rs, too.

A test that leaves a table on purpose which can't be opened says so by the mark `damaged`.
"""

import re

import pytest

from kafka_on_spark.base.errors import KafkaOnSparkError
from tests.store.delta.cleaning import shorten
from tests.store.engines import KeptTable, check_with_delta_rs

DRAWN_BY_DELTA_RS = 2


@pytest.fixture(autouse=True)
def engines_agree(request, tmp_path):
    """Check what a test leaves behind, once its faults are gone."""
    yield
    damaged = request.node.get_closest_marker("damaged")
    folders = [each.parent for each in tmp_path.glob("**/_delta_log") if each.is_dir()]
    seed = None if request.config.getoption("--long") else request.node.nodeid
    sound = [str(each) for each in folders if _is_sound(str(each), damaged, seed)]
    assert damaged is None or len(sound) < len(folders), "no table is damaged"


def _is_sound(uri, damaged, seed):
    """Check a table with delta-rs; return False if it is damaged as the mark of its test says.

    Delta-rs takes eight milliseconds to open a version, so a run that is not long opens the oldest,
    the newest and the checkpoints, and a few that are drawn by `seed`, others for each test.
    """
    try:
        table = KeptTable(uri)
    except KafkaOnSparkError as error:
        if damaged is None or re.search(damaged.args[0], error.message) is None:
            raise
        return False
    check_with_delta_rs(table, None if seed is None else table.versions(seed, DRAWN_BY_DELTA_RS))
    return True


@pytest.fixture
def short(monkeypatch):
    """Have checkpoints often and keep few commits, so that few commits get a log cleaned."""
    shorten(monkeypatch)
