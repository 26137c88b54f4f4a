"""One cluster that has lived, given to each test as it was."""

import pytest

from kafka_on_spark.storage.delta import conditional_commit
from tests.cluster.disks import Disks
from tests.cluster.folders import quick_folder
from tests.fsck.lives import Life, live
from tests.fsck.plants import Plant, registration
from tests.fsck.upkept import live_with_upkeep


@pytest.fixture(scope="session")
def lived():
    with quick_folder() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(conditional_commit, "CHECKPOINT_INTERVAL", 10)
        disks = Disks(folder / "cluster")
        disks.base.mkdir()
        disks.create()
        live(disks)
        life = Life(disks, folder / "copy")
        disks.cluster.close()
        disks.opened.clear()
        life.save()
        yield life
        disks.close()


@pytest.fixture(scope="session")
def upkept_once():
    with quick_folder() as folder:
        disks = Disks(folder / "cluster")
        disks.base.mkdir()
        disks.create()
        with pytest.MonkeyPatch.context() as patched:
            # What is planted in a commit is not in a checkpoint, too. The other life has more.
            patched.setattr(conditional_commit, "CHECKPOINT_INTERVAL", 100)
            live_with_upkeep(disks)
        life = Life(disks, folder / "copy")
        disks.cluster.close()
        disks.opened.clear()
        life.save()
        yield life
        disks.close()


@pytest.fixture
def upkept(upkept_once):
    """Return the cluster whose logs were merged and compacted, as it was."""
    upkept_once.restore()
    return upkept_once


@pytest.fixture
def life(lived):
    lived.restore()
    return lived


@pytest.fixture
def leader(life):
    return Plant(life, registration(life).leader)


@pytest.fixture
def follower(life):
    register = registration(life)
    return Plant(life, min(register.isr - {register.leader}))
