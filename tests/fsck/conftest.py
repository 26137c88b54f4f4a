"""One cluster that has lived, given to each test as it was."""

import pytest

from kafka_on_spark.store.delta import delta_log
from tests.cluster.disks import Disks, patient_passes
from tests.cluster.folders import quick_folder
from tests.fsck.lives import Life, live
from tests.fsck.plants import Plant, registration
from tests.fsck.upkept import live_with_upkeep


@pytest.fixture(scope="session")
def lived():
    with quick_folder() as folder:
        disks = Disks(folder / "cluster")
        disks.base.mkdir()
        # Not for longer than it lives: what follows in this process would write checkpoints as often,
        # at moments when other tests copy and rename folders.
        with pytest.MonkeyPatch.context() as patched, patient_passes():
            patched.setattr(delta_log, "CHECKPOINT_INTERVAL", 10)
            disks.create()
            live(disks)
            life = Life.of(disks, folder / "copy")
        yield life
        life.disks.close()


@pytest.fixture(scope="session")
def upkept_once():
    with quick_folder() as folder:
        disks = Disks(folder / "cluster")
        disks.base.mkdir()
        disks.create()
        live_with_upkeep(disks)
        life = Life.of(disks, folder / "copy")
        yield life
        life.disks.close()


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
