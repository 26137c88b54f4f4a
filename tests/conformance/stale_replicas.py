"""A table that another incarnation of a broker made, opened as the registered one's."""

from kafka_on_spark.errors import KafkaStorageError, NotLeaderOrFollowerError, ReplicaLostError
from kafka_on_spark.ids import DirectoryId
from tests.builders import address
from tests.fakes import MemoryReplicaStore, MemoryRoots


def open_as(registered: DirectoryId, made_on: DirectoryId, broker_id: int) -> None:
    """Make a replica on one disk of a broker and open it as the other's.

    Raises:
        NotLeaderOrFollowerError: It is refused as another's. Kafka knows it by the broker epoch.
    """
    theirs = address(broker_id, directory_id=made_on)
    store = MemoryReplicaStore(MemoryRoots({theirs.root: made_on}))
    store.create(theirs)
    try:
        store.open(address(broker_id, directory_id=registered)).load()
    except (KafkaStorageError, ReplicaLostError) as error:
        raise NotLeaderOrFollowerError(f"of another incarnation: {error}") from error
