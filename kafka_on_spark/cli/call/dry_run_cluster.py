"""The dry run of a change: a cluster that decides each command on its image and commits nothing."""

from collections.abc import Callable, Iterable, Mapping
from inspect import getattr_static
from os import PathLike
from types import FunctionType
from typing import Any, Final, NoReturn, TypeVar

from kafka_on_spark.cluster.cluster import Cluster
from kafka_on_spark.controller.brokers.broker_changes import register_broker
from kafka_on_spark.controller.brokers.draining import continue_draining, drain_broker
from kafka_on_spark.controller.commands.commands import UNREGISTER_BROKER, Command
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import BrokerId, DirectoryId, TopicPartition
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp
from kafka_on_spark.service.control.controller_loop import ControllerReport
from kafka_on_spark.service.replicate.replication_round import ReplicationReport
from kafka_on_spark.service.what_if.dry_run import RehearsedMetadata
from kafka_on_spark.spark.wiring.dry_run_services import rehearsed_round
from kafka_on_spark.spark.wiring.services import ID_SOURCE, Services, new_uuid
from kafka_on_spark.storage.roots.root_identity import (
    ROOT_MODE,
    check_mode,
    check_owner,
    check_reachable,
)
from kafka_on_spark.storage.roots.roots import normalize

T = TypeVar("T")

DRY_RUN_METHODS: Final = frozenset(
    {
        "add_partitions",
        "alter_cluster_configs",
        "alter_group_offsets",
        "alter_topic_configs",
        "cancel_reassignment",
        "close",
        "create_topic",
        "delete_group",
        "delete_records",
        "delete_topic",
        "describe_topic",
        "drain_broker",
        "elect_leaders",
        "lose_replica",
        "offsets",
        "plan_reassignment",
        "reassign",
        "register_broker",
        "remove_partitions",
        "replicate",
        "resume_broker",
        "run_controller",
        "unregister_broker",
        "verify_reassignment",
    }
)
"""Methods that only read, or that decide without a commit. A dry run refuses every other method
before it begins, also one that is added later: an append would write files and commit."""


class DryRunEnd(Exception):  # noqa: N818 - not an error: a dry run ends where a commit would follow
    """A change was decided. What follows a decision must not run."""


class DryRunCluster(Cluster):
    """A cluster that decides commands on its image, by the functions that the cluster itself uses.

    Each command ends by DryRunEnd in place of its commit, so no effect after the commit runs.

    Attributes:
        decided: The records that would be committed.
    """

    def __init__(self, metadata_root: str, services: Services) -> None:
        super().__init__(metadata_root, services)
        self.decided: list[Record] = []

    def __getattribute__(self, name: str) -> Any:
        """Return an attribute; a method that is not in DRY_RUN_METHODS is one that refuses."""
        is_refused = not name.startswith("_") and name not in DRY_RUN_METHODS
        if is_refused and isinstance(getattr_static(Cluster, name, None), FunctionType):
            return _refusal_of(name)
        return super().__getattribute__(name)

    @classmethod
    def of(cls, cluster: Cluster) -> "DryRunCluster":
        """Return a dry run of an open cluster; the cluster's owner closes it."""
        return cls(cluster.root, cluster._services)

    def _command(self, command: Command[T], **arguments: object) -> T:
        self._end_with(command.order(**arguments).decide(self.image, ID_SOURCE))

    def _end_with(self, result: ControllerResult[Any]) -> NoReturn:
        self.decided.extend(result.records)
        raise DryRunEnd

    def run_controller(self, seconds: float | None = None) -> ControllerReport:
        """Decide one pass of the controller; each step builds on what the step before decided.

        Roots are probed and replicas inspected as in a real pass; no table is removed.
        """
        rehearsed = RehearsedMetadata(self._metadata)
        self._services.controller_loop(rehearsed).run(None)
        self._end_with(ControllerResult(rehearsed.decided, None))

    def replicate(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        is_sweep: bool = False,
        configs: Mapping[str, object] | None = None,
    ) -> ReplicationReport:
        """Decide one round on the tables as they are, and return the report that it would give.

        Records to copy are counted but not copied, and their source is not checked.
        """
        assert configs is None, "no verb has settings of its own for a round"
        rehearsed = RehearsedMetadata(self._metadata)
        report = rehearsed_round(self._services, rehearsed).run(topics, is_sweep=is_sweep)
        self.decided.extend(rehearsed.decided)
        return report

    def drain_broker(self, broker_id: int) -> list[TopicPartition]:
        """Decide a drain; each step builds on what the step before decided."""
        image = self.image
        step = drain_broker(image, BrokerId(broker_id), f"broker {broker_id} drained by request")
        records: list[Record] = []
        while step.records:
            batch = MetadataBatch(
                base_offset=image.offset,
                stamp=Stamp(time_ms=image.time_ms),
                records=tuple(step.records),
            )
            records.extend(batch.records)
            image = image.replay(batch)
            step = continue_draining(image)
        self._end_with(ControllerResult(records, []))

    def unregister_broker(self, broker_id: int) -> None:
        """Decide it. The real command first removes unassigned replicas from the root."""
        self._command(UNREGISTER_BROKER, broker_id=broker_id)

    def register_broker(
        self,
        broker_id: int,
        root: str | PathLike[str],
        *,
        rack: str | None = None,
        root_mode: int = ROOT_MODE,
    ) -> None:
        """Decide a registration. The real command first writes an identity to the root.

        Raises:
            InvalidRootError: The root can't be reached.
            InconsistentClusterIdError, DuplicateBrokerRegistrationError: The root belongs to
                another cluster or broker.
        """
        check_mode(root_mode)
        url = normalize(root)
        known = check_reachable(url, self._services.options)
        if known is not None:
            cluster_id = self.image.cluster_id
            assert cluster_id is not None, "an open cluster has an id"
            check_owner(known, url, cluster_id, BrokerId(broker_id))
        # The real command gives a root without an identity a new one.
        directory_id = DirectoryId(new_uuid()) if known is None else known.directory_id
        cause = f"broker {broker_id} registered by request"
        self._end_with(
            register_broker(
                self.image,
                BrokerId(broker_id),
                url,
                rack=rack,
                directory_id=directory_id,
                cause=cause,
            )
        )


def _refusal_of(name: str) -> Callable[..., NoReturn]:
    def refuse(*arguments: object, **named: object) -> NoReturn:
        raise InvalidRequestError(
            f"{name.replace('_', ' ')} can't be done as a dry run, which writes nothing:"
            " do it without --dry-run"
        )

    return refuse
