"""The parts of a cluster: of a live one, and as of a moment, where all that changes it refuses."""

from dataclasses import dataclass

from kafka_on_spark.cluster.answers import Answers
from kafka_on_spark.cluster.brokers import Brokers
from kafka_on_spark.cluster.histories import Histories
from kafka_on_spark.cluster.quorum import Quorum
from kafka_on_spark.cluster.records import Appends, Changes, Consumers, Reads
from kafka_on_spark.cluster.refusing import Refusing
from kafka_on_spark.cluster.requests import Requests
from kafka_on_spark.cluster.upkeep import Upkeep
from kafka_on_spark.service.what_if.metadata_as_of import refusal
from kafka_on_spark.spark.wiring.read_services import ServicesAsOf
from kafka_on_spark.spark.wiring.services import Services


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
    return ClusterParts(
        answers=Answers(services.metadata),
        histories=Histories(services),
        reads=Reads(metadata_root, services),
        changes=Changes(metadata_root, services),
        requests=Requests(services, services.run_command),
        brokers=Brokers(metadata_root, services),
        appends=Appends(services),
        consumers=Consumers(services),
        quorum=Quorum(services),
        upkeep=Upkeep(metadata_root, services),
    )


def parts_as_of(metadata_root: str, services: ServicesAsOf) -> ClusterParts:
    """Return the parts of a cluster as of a moment: what is no answer and no read
    is refused."""
    image = services.metadata.image
    refusing = Refusing(lambda what: refusal(what, image))
    return ClusterParts(
        answers=Answers(services.metadata),
        histories=Histories(services, is_past=True),
        reads=Reads(metadata_root, services),
        changes=refusing,
        requests=refusing,
        brokers=refusing,
        appends=refusing,
        consumers=refusing,
        quorum=refusing,
        upkeep=refusing,
    )
