"""A table that another incarnation of a broker made, opened as the registered one's."""

from kafka_on_spark.ids import DirectoryId
from tests.builders import address
from tests.fakes import MemoryReplicaStore, MemoryRoots


def open_as(registered: DirectoryId, made_on: DirectoryId, broker_id: int) -> None:
    """Make a replica on one disk of a broker and open it as the other's.

    Raises:
        ReplicaLostError: It is not the replica that was asked for.
    """
    theirs = address(broker_id, directory_id=made_on)
    store = MemoryReplicaStore(MemoryRoots({theirs.root: made_on}))
    store.make(theirs)
    store.open(address(broker_id, directory_id=registered)).load()
