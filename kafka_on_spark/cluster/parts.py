"""The parts of a cluster: of a live one, and as of a moment, where all that changes it refuses."""

from dataclasses import dataclass
from typing import Final

from kafka_on_spark.cluster.answers import Answers
from kafka_on_spark.cluster.brokers import Brokers
from kafka_on_spark.cluster.histories import Histories
from kafka_on_spark.cluster.quorum import Quorum
from kafka_on_spark.cluster.records import Appends, Changes, Consumers, Reads
from kafka_on_spark.cluster.refusing import Refusing
from kafka_on_spark.cluster.requests import Requests
from kafka_on_spark.cluster.upkeep import Upkeep
from kafka_on_spark.service.what_if.metadata_as_of import refusal
from kafka_on_spark.spark.wiring.accounts import (
    APPEND,
    COMMAND,
    CONSUME,
    CONTROL,
    DESCRIBE,
    FSCK,
    QUORUM,
    READ,
    REPLICATE,
    UPKEEP,
    accounted,
)
from kafka_on_spark.spark.wiring.read_services import ServicesAsOf
from kafka_on_spark.spark.wiring.services import Services

KEPT_GOING: Final = {
    "run_controller": CONTROL,
    "replicate": REPLICATE,
    "maintain": UPKEEP,
    "fsck": FSCK,
}
"""What keeps a cluster going, by the methods that do it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterParts:
    """What a cluster's methods are given to, each method by its own name.

    Attributes:
        answers: Reads the metadata.
        histories: Reads what upkeep was decided and done.
        reads: Reads records.
        changes: Reads what changed between two cuts.
        requests: Has one command decided.
        brokers: Changes brokers, with what is done at their roots.
        appends: Appends records.
        consumers: Makes consumers.
        quorum: Describes and changes the voters.
        upkeep: Runs the controller, rounds and checks.
    """

    answers: Answers
    histories: Histories | Refusing
    reads: Reads | Refusing
    changes: Changes | Refusing
    requests: Requests | Refusing
    brokers: Brokers | Refusing
    appends: Appends | Refusing
    consumers: Consumers | Refusing
    quorum: Quorum | Refusing
    upkeep: Upkeep | Refusing


def live_parts(metadata_root: str, services: Services) -> ClusterParts:
    """Return the parts of a cluster as it is now."""
    ledger = services.ledger
    return ClusterParts(
        answers=accounted(Answers(services.metadata), ledger, DESCRIBE),
        histories=accounted(Histories(services), ledger, DESCRIBE),
        reads=accounted(Reads(metadata_root, services), ledger, READ),
        changes=accounted(Changes(metadata_root, services), ledger, READ),
        requests=accounted(Requests(services, services.run_command), ledger, COMMAND),
        brokers=accounted(Brokers(metadata_root, services), ledger, COMMAND),
        appends=accounted(Appends(services), ledger, APPEND),
        consumers=accounted(Consumers(services), ledger, CONSUME),
        quorum=accounted(Quorum(services), ledger, QUORUM),
        upkeep=accounted(Upkeep(metadata_root, services), ledger, DESCRIBE, KEPT_GOING),
    )


def parts_as_of(metadata_root: str, services: ServicesAsOf) -> ClusterParts:
    """Return the parts of a cluster as of a moment: what is no answer and no read
    is refused."""
    image = services.metadata.image
    refusing = Refusing(lambda what: refusal(what, image))
    return ClusterParts(
        answers=accounted(Answers(services.metadata), services.ledger, DESCRIBE),
        histories=accounted(Histories(services, is_past=True), services.ledger, DESCRIBE),
        reads=accounted(Reads(metadata_root, services), services.ledger, READ),
        changes=refusing,
        requests=refusing,
        brokers=refusing,
        appends=refusing,
        consumers=refusing,
        quorum=refusing,
        upkeep=refusing,
    )
