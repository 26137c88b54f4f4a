"""The parts of a cluster: of a live one, and as of a moment, where all that changes it refuses.

Each part is imported and made once a method of it is called: together they bring most of the
project's modules, and a process such as a producer needs one or two.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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
    accounted_once_made,
)
from kafka_on_spark.spark.wiring.services import Services

if TYPE_CHECKING:
    from kafka_on_spark.cluster.answers import Answers
    from kafka_on_spark.cluster.appends import Appends
    from kafka_on_spark.cluster.brokers import Brokers
    from kafka_on_spark.cluster.consuming.consumer import Consumers
    from kafka_on_spark.cluster.quorum import Quorum
    from kafka_on_spark.cluster.records import Changes, Reads
    from kafka_on_spark.cluster.refusing import Refusing
    from kafka_on_spark.cluster.requests import Requests
    from kafka_on_spark.cluster.upkeep import Upkeep
    from kafka_on_spark.service.metadata.metadata_roles import MetadataHistory
    from kafka_on_spark.spark.wiring.read_services import ReadServices, ServicesAsOf

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
        reads: Reads records.
        changes: Reads what changed between two cuts.
        requests: Has one command decided.
        brokers: Changes brokers, with what is done at their roots.
        appends: Appends records.
        consumers: Makes consumers.
        quorum: Describes and changes the voters.
        upkeep: Runs the controller, rounds and checks.
    """

    answers: "Answers"
    reads: "Reads | Refusing"
    changes: "Changes | Refusing"
    requests: "Requests | Refusing"
    brokers: "Brokers | Refusing"
    appends: "Appends | Refusing"
    consumers: "Consumers | Refusing"
    quorum: "Quorum | Refusing"
    upkeep: "Upkeep | Refusing"


def live_parts(metadata_root: str, services: Services) -> ClusterParts:
    """Return the parts of a cluster as it is now."""
    return ClusterParts(
        answers=accounted_once_made(lambda: _answers(services.metadata), DESCRIBE),
        reads=accounted_once_made(lambda: _reads(metadata_root, services), READ),
        changes=accounted_once_made(lambda: _changes(metadata_root, services), READ),
        requests=accounted_once_made(lambda: _requests(services), COMMAND),
        brokers=accounted_once_made(lambda: _brokers(services), COMMAND),
        appends=accounted_once_made(lambda: _appends(services), APPEND),
        consumers=accounted_once_made(lambda: _consumers(services), CONSUME),
        quorum=accounted_once_made(lambda: _quorum(services), QUORUM),
        upkeep=accounted_once_made(lambda: _upkeep(metadata_root, services), DESCRIBE, KEPT_GOING),
    )


def parts_as_of(metadata_root: str, services: "ServicesAsOf") -> ClusterParts:
    """Return the parts of a cluster as of a moment: what is no answer and no read
    is refused."""
    from kafka_on_spark.cluster.refusing import Refusing
    from kafka_on_spark.service.what_if.metadata_as_of import refusal

    image = services.metadata.image
    refusing = Refusing(lambda what: refusal(what, image))
    return ClusterParts(
        answers=accounted_once_made(lambda: _answers(services.metadata), DESCRIBE),
        reads=accounted_once_made(lambda: _reads(metadata_root, services), READ),
        changes=refusing,
        requests=refusing,
        brokers=refusing,
        appends=refusing,
        consumers=refusing,
        quorum=refusing,
        upkeep=refusing,
    )


def _answers(metadata: "MetadataHistory") -> "Answers":
    from kafka_on_spark.cluster.answers import Answers

    return Answers(metadata)


def _reads(metadata_root: str, services: "ReadServices") -> "Reads":
    from kafka_on_spark.cluster.records import Reads

    return Reads(metadata_root, services)


def _changes(metadata_root: str, services: Services) -> "Changes":
    from kafka_on_spark.cluster.records import Changes

    return Changes(metadata_root, services)


def _requests(services: Services) -> "Requests":
    from kafka_on_spark.cluster.requests import Requests

    return Requests(services, services.run_command)


def _brokers(services: Services) -> "Brokers":
    from kafka_on_spark.cluster.brokers import Brokers

    return Brokers(services)


def _appends(services: Services) -> "Appends":
    from kafka_on_spark.cluster.appends import Appends

    return Appends(services)


def _consumers(services: Services) -> "Consumers":
    from kafka_on_spark.cluster.consuming.consumer import Consumers

    return Consumers(services)


def _quorum(services: Services) -> "Quorum":
    from kafka_on_spark.cluster.quorum import Quorum

    return Quorum(services)


def _upkeep(metadata_root: str, services: Services) -> "Upkeep":
    from kafka_on_spark.cluster.upkeep import Upkeep

    return Upkeep(metadata_root, services)
