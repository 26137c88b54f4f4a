"""Forces a cluster whose majority of metadata roots is lost for ever to go on from one of them."""

import logging
from dataclasses import dataclass
from uuid import uuid4

from kafka_on_spark.base.errors import InvalidRequestError, KafkaOnSparkError
from kafka_on_spark.controller.forced_elections import ForcedElections, ForcedElectionsReport
from kafka_on_spark.controller.forcing import awaiting_leaders, begin_generation
from kafka_on_spark.metadata.broker import BrokerRegistration
from kafka_on_spark.metadata.metadata_log import DeltaMetadataLog
from kafka_on_spark.metadata.quorum.elector import first_stamp
from kafka_on_spark.metadata.quorum.forcing import (
    Standing,
    all_that_answer,
    force_voter,
    standing,
)
from kafka_on_spark.metadata.quorum.generations import Generation, check_may_force
from kafka_on_spark.metadata.quorum.voter_set import Voter
from kafka_on_spark.node.opening import metadata_log_of
from kafka_on_spark.node.services import THREADS, Services
from kafka_on_spark.store.clock import SystemClock
from kafka_on_spark.store.daemon_threads import DaemonThreads
from kafka_on_spark.store.root_identity import read_identity, write_obeyed
from kafka_on_spark.store.roots import StorageOptions

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ForcedGeneration:
    """A generation that a cluster was forced into.

    Attributes:
        generation: Which; 1 is the first.
        voter: From whom it goes on: alone, unless others were added meanwhile.
        elections: How the partitions are led.
    """

    generation: Generation
    voter: Voter
    elections: ForcedElectionsReport


def check_forcing(url: str, node_id: int, options: StorageOptions) -> Standing:
    """Return what is left of a quorum, if voter `node_id` may go on alone; nothing is changed.

    Raises: as `force`.
    """
    metadata_log = DeltaMetadataLog(url, options)
    found = standing(metadata_log.tables, _voter_of(metadata_log, node_id))
    if not _goes_on(found, options):
        check_may_force(found.table, found.answering, found.newest)
    return found


def force(url: str, node_id: int, options: StorageOptions) -> ForcedGeneration:
    """Have voter `node_id` go on alone, in a new generation of the cluster, and lead all partitions
    anew. One that was cut off, or that left partitions or brokers behind, goes on.

    Raises:
        InvalidRequestError: A majority answers, one that answers has more, or it is no voter.
        KafkaStorageError, ReplicaLostError, CorruptLogError: The voter's root fails.
        CommitOutcomeUnknownError: Force again.
    """
    metadata_log = DeltaMetadataLog(url, options)
    voter = _voter_of(metadata_log, node_id)
    found = standing(metadata_log.tables, voter)
    generation = Generation(found.image.generation)
    if not _goes_on(found, options):
        generation = force_voter(
            metadata_log.tables,
            voter,
            begin_generation,
            stamp=first_stamp(metadata_log.tables, voter.key, SystemClock()),
            new_id=lambda: uuid4().hex,
        )
    services = Services.open(voter.root, options, None)
    try:
        return ForcedGeneration(generation, voter, _led_anew(services))
    finally:
        services.close()


def _goes_on(found: Standing, options: StorageOptions) -> bool:
    """Return whether a generation has begun, and partitions await their leaders, or a broker's root
    that can be read has not heard of it."""
    if not found.is_begun:
        return False
    image = found.image
    return bool(awaiting_leaders(image)) or any(
        _lacks_generation(each, image.generation, options) for each in image.brokers.values()
    )


def _lacks_generation(broker: BrokerRegistration, generation: int, options: StorageOptions) -> bool:
    try:
        found = read_identity(broker.root, options)
    except KafkaOnSparkError as error:
        log.info("the root of broker %d can't be read: %s", broker.broker_id, error)
        return False
    if found is None or found.directory_id != broker.directory_id:
        return False  # it is not the disk it was
    return found.generation < generation


def _voter_of(metadata_log: DeltaMetadataLog, node_id: int) -> Voter:
    answering = all_that_answer(metadata_log.tables)
    for table in answering:
        voters = table.log.voters
        voter = None if voters is None else voters.voter_of(table.key.node_id)
        if table.key.node_id == node_id and voter is not None and voter.key == table.key:
            return voter
    names = ", ".join(str(each.key.node_id) for each in answering) or "none"
    raise InvalidRequestError(
        f"{node_id} is no voter that answers from here: those that answer are {names}"
    )


def _led_anew(services: Services) -> ForcedElectionsReport:
    options, roots = services.options, metadata_log_of(services.metadata).registered_roots

    def told(broker: BrokerRegistration, generation: int) -> None:
        voters = services.metadata.image.registered_voters
        write_obeyed(broker.root, broker.directory_id, roots, generation, options, voters)

    with DaemonThreads(THREADS, "fence") as threads:
        elections = ForcedElections(
            services.metadata,
            services.replicas,
            run_each=threads.map,
            write_generation=told,
            timeout_ms=services.timeout_ms,
        )
        return elections.run()
