"""Creating a cluster: what modes its folders get, and what becomes of two makers at once."""

import os
import stat

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import InvalidRequestError
from tests.cluster.disks import FAST
from tests.cluster.folders import quick_folder


@pytest.fixture
def folder():
    with quick_folder() as folder:
        yield folder


def modes(*folders):
    return {stat.S_IMODE(os.stat(each).st_mode) for each in folders}


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_all_roots_that_are_made_have_one_mode(folder, mask):
    before = os.umask(mask)
    try:
        with Cluster.create(folder / "meta", {1: folder / "one"}, configs=FAST) as cluster:
            cluster.register_broker(2, folder / "deep" / "two")
        with Cluster.create(
            folder / "shared", {1: folder / "three"}, configs=FAST, root_mode=0o770
        ) as cluster:
            cluster.register_broker(2, folder / "four", root_mode=0o750)
    finally:
        os.umask(before)

    assert modes(folder / "meta", folder / "one", folder / "deep" / "two") == {0o700}
    assert modes(folder / "shared", folder / "three") == {0o770}
    assert modes(folder / "four") == {0o750}


@pytest.mark.parametrize("mode", [0, 0o077, 0o1700, "700", None, True, 0o600])
def test_a_mode_that_its_owner_could_not_use_is_refused_before_anything_is_made(folder, mode):
    with pytest.raises(InvalidRequestError, match="root_mode can't be"):
        Cluster.create(folder / "meta", {1: folder / "one"}, root_mode=mode)

    assert list(folder.iterdir()) == []
