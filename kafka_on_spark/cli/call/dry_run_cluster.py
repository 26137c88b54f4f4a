"""The dry run of a change: a cluster that decides each command on its image and commits nothing.

It is made of the parts of the live cluster that only answer, and of parts that decide. Its other
parts refuse: an append would write files and commit.
"""

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import NoReturn, TypeVar

from kafka_on_spark.cluster.answers import Answers
from kafka_on_spark.cluster.cluster import Cluster
from kafka_on_spark.cluster.parts import ClusterParts
from kafka_on_spark.cluster.quorum import VotersChange, new_root, voter_named
from kafka_on_spark.cluster.refusing import Refusing
from kafka_on_spark.cluster.requests import Requests
from kafka_on_spark.controller.brokers.broker_changes import register_broker
from kafka_on_spark.controller.brokers.draining import continue_draining, drain_broker
from kafka_on_spark.controller.commands.commands import UNREGISTER_BROKER, Command
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import BrokerId, DirectoryId, TopicPartition
from kafka_on_spark.metadata.records import LeaderChangeRecord, Record
from kafka_on_spark.raft.voter_set import Voter
from kafka_on_spark.service.control.controller_report import ControllerReport
from kafka_on_spark.service.quorum.voter_changing import voters_record
from kafka_on_spark.service.replicate.replication_report import ReplicationReport
from kafka_on_spark.service.what_if.dry_run import DryRunMetadata
from kafka_on_spark.spark.run.opening import metadata_log_of
from kafka_on_spark.spark.wiring.dry_run_services import dry_run_round
from kafka_on_spark.spark.wiring.preparing_roots import found_at
from kafka_on_spark.spark.wiring.preparing_voters import checked_voter
from kafka_on_spark.spark.wiring.services import Services
from kafka_on_spark.storage.calls.random_ids import ID_SOURCE, new_uuid
from kafka_on_spark.storage.identity.root_identity import check_mode
from kafka_on_spark.storage.roots.roots import normalize

T = TypeVar("T")


class DryRunEnd(Exception):  # noqa: N818 - not an error: a dry run ends where a commit would follow
    """A change was decided. What follows a decision must not run."""


def _refusal(what: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{what} can't be done as a dry run, which writes nothing: do it without --dry-run"
    )


class DryRun:
    """A dry run of changes to an open cluster, which its owner closes.

    Attributes:
        cluster: Decides commands on the image, by the functions that the cluster itself uses. Each
            command ends by DryRunEnd in place of its commit, so no effect after the commit runs.
        decided: The records that would be committed.
    """

    def __init__(self, cluster: Cluster) -> None:
        services = cluster._services
        assert isinstance(services, Services), "a cluster as of a moment takes no changes"
        self._services = services
        self.decided: list[Record] = []
        refusing = Refusing(_refusal)
        parts = ClusterParts(
            answers=Answers(services.metadata),
            reads=refusing,
            changes=refusing,
            requests=Requests(services, self.run_command),
            brokers=DryRunBrokers(self),
            appends=refusing,
            consumers=refusing,
            quorum=DryRunQuorum(self),
            upkeep=DryRunUpkeep(self),
        )
        self.cluster = Cluster(cluster.root, services, parts)

    def run_command(self, command: Command[T], **arguments: object) -> T:
        """Decide a command, and end.

        Raises:
            DryRunEnd: It was decided.
            And what the command is refused for.
        """
        image = self._services.metadata.catch_up()
        self.end_with(command.order(**arguments).decide(image, ID_SOURCE).records)

    def end_with(self, records: Iterable[Record]) -> NoReturn:
        """Take down what was decided, and end.

        Raises:
            DryRunEnd: Always.
        """
        self.decided.extend(records)
        raise DryRunEnd


class DryRunUpkeep(Refusing):
    """Decides a pass of the controller, or a round; refuses the rest."""

    def __init__(self, dry_run: DryRun) -> None:
        super().__init__(_refusal)
        self._dry_run = dry_run
        self._services = dry_run._services

    def run_controller(self, seconds: float | None) -> ControllerReport:
        """Decide one pass of the controller; each step builds on what the step before decided.

        Roots are probed and replicas inspected as in a real pass; no table is removed.
        """
        metadata = DryRunMetadata(self._services.metadata.catch_up(), self._services.clock)
        self._services.keeping.controller_loop(metadata).run(None)
        self._dry_run.end_with(metadata.decided)

    def replicate(
        self,
        topics: str | Iterable[str] | None,
        is_sweep: bool,
        configs: Mapping[str, object] | None,
    ) -> ReplicationReport:
        """Decide one round on the tables as they are, and return the report that it would give.

        Records to copy are counted but not copied, and their source is not checked.
        """
        assert configs is None, "no verb has settings of its own for a round"
        metadata = DryRunMetadata(self._services.metadata.catch_up(), self._services.clock)
        report = dry_run_round(self._services, metadata).run(topics, is_sweep=is_sweep)
        self._dry_run.decided.extend(metadata.decided)
        return report


class DryRunQuorum(Refusing):
    """Decides changes of voters, without what the real commands do at roots; refuses the rest."""

    def __init__(self, dry_run: DryRun) -> None:
        super().__init__(_refusal)
        self._dry_run = dry_run
        self._services = dry_run._services
        self._log = metadata_log_of(self._services.metadata)

    def add_controller(self, root: str | PathLike[str], root_mode: int) -> VotersChange:
        """Decide it. The real command first makes the voter's table, and copies the log to it.

        Raises: as `checked_voter`.
        """
        check_mode(root_mode)
        image = self._services.metadata.catch_up()
        voter = checked_voter(self._log, image, new_root(root), self._services.options)
        voters = self._log.changes.check_new(voter)
        self._dry_run.end_with((voters_record(voters, f"{voter} added"),))

    def remove_controller(self, voter: int | str) -> VotersChange:
        """Decide it. The real command first elects another leader, if this one leads.

        Raises:
            VoterNotFoundError: There is no such voter, or it is the only one.
        """
        self._services.metadata.catch_up()
        found = voter_named(self._log.tables.voters, voter)
        voters = self._log.changes.check_removal(found.key)
        self._dry_run.end_with((voters_record(voters, f"{found} removed"),))

    def elect_controller(self, to: int | str | None) -> Voter:
        """Decide it: a leader's first record, with the directory that it has.

        Raises:
            VoterNotFoundError: There is no such voter.
        """
        self._services.metadata.catch_up()
        key = None if to is None else voter_named(self._log.tables.voters, to).key
        key = self._log.changes.check_election(key)
        if key == self._log.leader:
            self._dry_run.end_with(())
        assert key.directory_id is not None, "a voter's is known"
        record = LeaderChangeRecord(
            leader=key.node_id, directory_id=key.directory_id, cause="elected by request"
        )
        self._dry_run.end_with((record,))


class DryRunBrokers(Refusing):
    """Decides changes of brokers, without what the real commands do at roots; refuses the rest."""

    def __init__(self, dry_run: DryRun) -> None:
        super().__init__(_refusal)
        self._dry_run = dry_run
        self._services = dry_run._services

    def drain_broker(self, broker_id: int) -> list[TopicPartition]:
        """Decide a drain; each step builds on what the step before decided."""
        cause = f"broker {broker_id} drained by request"
        metadata = DryRunMetadata(self._services.metadata.catch_up(), self._services.clock)
        timeout_ms = self._services.timeout_ms
        metadata.submit(
            lambda image: drain_broker(image, BrokerId(broker_id), cause), timeout_ms=timeout_ms
        )
        offset = None
        while offset != metadata.image.offset:
            offset = metadata.image.offset
            metadata.submit(continue_draining, timeout_ms=timeout_ms)
        self._dry_run.end_with(metadata.decided)

    def unregister_broker(self, broker_id: int) -> None:
        """Decide it. The real command first removes unassigned replicas from the root."""
        self._dry_run.run_command(UNREGISTER_BROKER, broker_id=broker_id)

    def register_broker(
        self, broker_id: int, root: str | PathLike[str], rack: str | None, root_mode: int
    ) -> None:
        """Decide a registration. The real command first writes an identity to the root.

        Raises: as `found_at`.
        """
        check_mode(root_mode)
        url, image = normalize(root), self._services.metadata.catch_up()
        known = found_at(url, image, BrokerId(broker_id), self._services.options)
        # The real command gives a root without an identity a new one.
        directory_id = DirectoryId(new_uuid()) if known is None else known.directory_id
        decision = register_broker(
            image,
            BrokerId(broker_id),
            url,
            rack=rack,
            directory_id=directory_id,
            cause=f"broker {broker_id} registered by request",
        )
        self._dry_run.end_with(decision.records)
