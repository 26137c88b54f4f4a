"""What is known of one partition's upkeep, read anew for each answer: its replicas' logs, and what
was decided and done. Of one only, since all commits that a replica's table has are read for it."""

from collections.abc import Sequence

from kafka_on_spark.console.views.timeline import History
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.service.describe.log_descriptions import describe_logs
from kafka_on_spark.service.describe.partition_logs import PartitionLogs, partition_logs
from kafka_on_spark.service.describe.upkeep_history import (
    ReplicaEvents,
    UpkeepHistory,
    decisions_among,
    replica_events,
    upkeep_history,
)
from kafka_on_spark.spark.wiring.services import Services
from kafka_on_spark.storage.replicas.archives.archive import FileReplicaArchive


def upkeep_of(
    services: Services, history: History, key: PartitionKey
) -> tuple[PartitionLogs, UpkeepHistory]:
    """Return a partition's logs and the history of their upkeep. `history` has the partition."""
    image = history.image
    topic, number = image.name_of(key)
    partition = image.topics[key.topic_id].partitions[key.partition]
    entries = [each for each in history.entries if (each.topic, each.partition) == (topic, number)]
    # One of the same name may have been deleted.
    begin = max((at for at, each in enumerate(entries, 1) if not each.replicas), default=0)
    archive = FileReplicaArchive(services.options)

    def read(addresses: Sequence[ReplicaAddress]) -> list[ReplicaEvents]:
        return [replica_events(each, archive) for each in addresses]

    addresses = [
        address_of(image, key, partition, broker_id)
        for broker_id in partition.replicas
        if partition.is_created(broker_id)
    ]
    described = describe_logs(image, [key], services.keeping.tasks.describe)
    [logs] = partition_logs(image, [key], entries[begin:], described)
    decided = decisions_among(entries[begin:])
    return logs, upkeep_history(image, decided, addresses, read)
