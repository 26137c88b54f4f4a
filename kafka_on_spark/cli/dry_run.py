"""The dry run of a change: it is decided on the image, and nothing is committed.

A command is decided as it would be, and its records are kept in place of their commit. What comes
before and after a commit (files at roots, further steps) is left out. A pass of the controller
decides in steps, each step on what the one before led to, in memory: there is no way to the
metadata log. Whatever has no dry run is refused.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from os import PathLike
from typing import Any, NoReturn, TypeVar

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import BrokerId, Clock, ControllerEpoch, DirectoryId
from kafka_on_spark.cli.verbs import DryRunEnd
from kafka_on_spark.cluster import Cluster
from kafka_on_spark.controller import commands
from kafka_on_spark.controller.cleanup_policy import RetentionPass
from kafka_on_spark.controller.commands import Command, to_json
from kafka_on_spark.controller.preparing_roots import checked_voter, found_at
from kafka_on_spark.log.retention import is_lower, limits_of
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.quorum.voter_changes import voters_record, with_new_voter
from kafka_on_spark.metadata.records import ControllerRecord, Record
from kafka_on_spark.node.node import ID_SOURCE
from kafka_on_spark.observe.what_if import decided
from kafka_on_spark.store.counts import COMMAND, DESCRIBE
from kafka_on_spark.store.root_urls import one_root

T = TypeVar("T")


class DryRun(Cluster):
    """A dry run of changes to an open cluster, which its owner closes. Each change ends by
    DryRunEnd in place of its commit, which `decided` has the records of; other calls are refused.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.root, cluster._node)
        self.decided: list[Record] = []
        self.asked: list[tuple[Command[Any], dict[str, object]]] = []  # with their arguments

    def _check_may(self, what: str, operation: str) -> None:
        if operation not in (COMMAND, DESCRIBE):
            raise InvalidRequestError(
                f"{what} can't be done as a dry run, which writes nothing: do it without --dry-run"
            )

    def _run(self, command: Command[T], **arguments: object) -> T:
        image = self._metadata.catch_up()
        self.asked.append((command, arguments))
        self.end_with(command.decide(image, ID_SOURCE, to_json(arguments)).records)

    def end_with(self, records: Iterable[Record]) -> NoReturn:
        """Take down what was decided, and end by DryRunEnd."""
        self.decided.extend(records)
        raise DryRunEnd

    def retention_loss(self) -> tuple[int, int, int]:
        """Return how many records and bytes retention deletes once what was decided is made, of
        topics that may keep less by it; and the partitions with records of which nobody can tell,
        since no leader can be read."""
        before = self._metadata.image
        after = decided(before, self.decided, self._node.clock.now_ms())
        scope = frozenset(
            each
            for each in before.topics
            if is_lower(limits_of(after.settings(each)), limits_of(before.settings(each)))
        )
        leaderless = sum(
            key.topic_id in scope
            and each.leader is None
            and each.high_watermark > each.log_start_offset
            for key, each in before.partitions()
        )
        found = RetentionPass(self._node).run(scope, is_all=True, is_dry_run=True, image=after)
        works = [work for each in found for _, work in each.done]
        return (
            sum(each.count for each in works),
            sum(each.size_bytes for each in works),
            leaderless + sum(bool(each.error) for each in works),
        )

    def unregister_broker(self, broker_id: int) -> None:
        self._run(commands.UNREGISTER_BROKER, broker_id=broker_id)

    def _prepare_broker(
        self, image: MetadataImage, broker_id: BrokerId, root: str, *_: object
    ) -> DirectoryId:
        known = found_at(root, image, broker_id, self._node.options)
        return DirectoryId(ID_SOURCE.new_uuid()) if known is None else known.directory_id

    def add_controller(self, root: str | PathLike[str], *, root_mode: int = 0o700) -> NoReturn:
        image, log = self._metadata.catch_up(), self._node.metadata.log
        voter = checked_voter(log, image, one_root(root), self._node.options)
        voters = with_new_voter(log.confirm(), voter)
        self.end_with([voters_record(voters, f"{voter} added")])

    def remove_controller(self, voter: int | str) -> NoReturn:
        voters = self._node.metadata.log.confirm().voters
        found = voters.named(voter)
        self.end_with([voters_record(voters.without_voter(found.key), f"{found} removed")])

    def run_controller(self, seconds: float | None = None) -> NoReturn:
        """Decide one pass: roots are probed and replicas inspected, and no table is removed."""
        from kafka_on_spark.controller.controller_loop import ControllerLoop

        metadata = DryRunMetadata(self._metadata.catch_up(), self._node.clock)
        ControllerLoop(self._node, dry_run=metadata).run(None)
        self.end_with(metadata.decided)


class DryRunMetadata:
    """A MetadataDecider that begins with `image`, and whose decisions change its own image alone.

    A lease that a controller holds counts as resigned: the question is what a controller would do.
    So claims and resignations are left out of what is `decided`.
    """

    is_far = False

    def __init__(self, image: MetadataImage, clock: Clock) -> None:
        if image.controller is not None:
            image = replace(image, controller=replace(image.controller, controller_id=None))
        self.image = image
        self._clock = clock
        self.decided: list[Record] = []

    def catch_up(self) -> MetadataImage:
        return self.image  # no other process takes part in a dry run

    def has_next(self) -> bool:
        return False

    def submit(
        self,
        decide: Callable[[MetadataImage], ControllerResult[T]],
        *,
        timeout_ms: int,
        controller: tuple[str, ControllerEpoch] | None = None,
    ) -> T:
        result = decide(self.image)
        if result.records:
            self.image = decided(self.image, result.records, self._clock.now_ms())
            self.decided.extend(
                each for each in result.records if not isinstance(each, ControllerRecord)
            )
        return result.response
