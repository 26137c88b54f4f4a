"""A replica lies on its broker's root: a link in its folder's place leads out of it, and is refused."""

import pytest

from tests.cluster.disks import (
    PATIENCE_MS,
    files_below,
    isr_of,
    new_disks,
    partition_of,
    records,
    values_of,
)


@pytest.fixture
def disks():
    with new_disks() as disks:
        disks.cluster.create_topic("t", replica_assignment={0: [1, 2, 3]})
        disks.cluster.append("t", records(b"a", b"b"))
        yield disks


def link_in_path(disks, folder):
    """Put a folder elsewhere, and a link in its place; return where it is."""
    elsewhere = disks.base / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    return elsewhere


# fmt: off
PLACES = [
    pytest.param(lambda folder: folder,                  id="replica"),
    pytest.param(lambda folder: folder.parent,           id="topic"),
    pytest.param(lambda folder: folder / "_delta_log",   id="log"),
]
# fmt: on


@pytest.mark.parametrize("place", PLACES)
def test_a_leader_behind_a_link_is_followed_by_another_and_nothing_is_written_there(disks, place):
    elsewhere = link_in_path(disks, place(disks.folder(1, "t")))
    before = files_below(elsewhere)

    with disks.open() as cluster:
        cluster.append("t", records(b"c"), timeout_ms=PATIENCE_MS)
        assert values_of(cluster, "t") == [b"a", b"b", b"c"]
        assert partition_of(cluster, "t").leader in (2, 3)
        assert isr_of(cluster, "t") == [2, 3]

    assert files_below(elsewhere) == before
