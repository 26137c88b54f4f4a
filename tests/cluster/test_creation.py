"""Creating a cluster: what modes its folders get, and what becomes of two makers at once."""

import os
import stat

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import ClusterNotFoundError, InvalidRequestError
from kafka_on_spark.cli.options import mode_of
from kafka_on_spark.metadata.cluster_roots import create_metadata_log
from kafka_on_spark.store.storage_options import StorageOptions
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


def test_the_command_line_takes_modes_as_chmod_does():
    assert [mode_of(each) for each in ("770", "0750")] == [0o770, 0o750]
    with pytest.raises(InvalidRequestError, match="--root-mode can't be '0o700'"):
        mode_of("0o700")


def test_a_creation_that_was_cut_off_before_its_commit_is_no_cluster_and_is_gone_on_with(folder):
    create_metadata_log(str(folder / "meta"), StorageOptions(), "the cluster's id")

    for as_of in (None, 0):
        with pytest.raises(ClusterNotFoundError, match="was cut off: create it again"):
            Cluster.open(folder / "meta", as_of=as_of)

    with Cluster.create(folder / "meta", {1: folder / "one"}, configs=FAST) as cluster:
        assert cluster.image.cluster_id == "the cluster's id"
    Cluster.open(folder / "meta").close()
