"""A cluster opened for one call of the command line, and the rehearsal of a change to it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from inspect import getattr_static
from os import PathLike
from types import FunctionType
from typing import Any, Final, NoReturn, TypeVar

from kafka_on_spark.cli.options import moment, pairs
from kafka_on_spark.cli.output import Output, confirm, plural, say, write_json, write_table
from kafka_on_spark.cli.record_rows import RECORD_COLUMNS, decided_rows
from kafka_on_spark.cluster import Cluster
from kafka_on_spark.controller.brokers import register_broker
from kafka_on_spark.controller.commands import UNREGISTER_BROKER, Command
from kafka_on_spark.controller.draining import continue_draining, drain_broker
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import BrokerId, DirectoryId, TopicPartition
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp
from kafka_on_spark.service.controller_loop import ControllerReport
from kafka_on_spark.service.rehearsed import RehearsedMetadata
from kafka_on_spark.service.replication_round import ReplicationReport
from kafka_on_spark.spark.rehearsal import rehearsed_round
from kafka_on_spark.spark.services import DRAWS, Services, new_uuid
from kafka_on_spark.storage.root_identity import (
    ROOT_MODE,
    check_mode,
    check_owner,
    check_reachable,
)
from kafka_on_spark.storage.roots import StorageOptions, normalize

T = TypeVar("T")

Change = Callable[[Cluster], object]
"""What changes something, given the cluster, or a rehearsal of it."""


class Rehearsed(Exception):  # noqa: N818 - not an error: the end of a rehearsal
    """A change was decided, and what would come after the decision must not be done."""


class Rehearsal(Cluster):
    """A cluster whose commands are decided on its image, and committed nowhere.

    Decisions are pure, so what would be committed is what is decided: by the very functions that
    decide it in earnest. A command ends where it would be committed, so that nothing that follows
    is done either.
    """

    def __init__(self, metadata_root: str, services: Services) -> None:
        super().__init__(metadata_root, services)
        self.decided: list[Record] = []

    @classmethod
    def of(cls, cluster: Cluster) -> "Rehearsal":
        """Return a rehearsal on an open cluster, which stays its owner's to close."""
        return cls(cluster.root, cluster._services)

    def _command(self, command: Command[T], **arguments: object) -> T:
        self._end_with(command.order(**arguments).decide(self.image, DRAWS))

    def run_controller(self, seconds: float | None = None) -> ControllerReport:
        """Decide what one pass would, each step on what the one before would lead to.

        Roots are probed and replicas looked at, as in earnest; tables are not removed.
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
        """Decide what a round would, with tables as they are now: what would be copied is counted,
        not copied, and its source is not checked. The answer is the report it would give."""
        assert configs is None, "no verb has settings of its own for a round"
        rehearsed = RehearsedMetadata(self._metadata)
        report = rehearsed_round(self._services, rehearsed).run(topics, is_sweep=is_sweep)
        self.decided.extend(rehearsed.decided)
        return report

    def _end_with(self, result: ControllerResult[Any]) -> NoReturn:
        self.decided.extend(result.records)
        raise Rehearsed

    def drain_broker(self, broker_id: int) -> list[TopicPartition]:
        """Decide a draining, step by step: each on what the one before would lead to."""
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
        """Decide it, without what it begins with: removing from the root what is nobody's."""
        self._command(UNREGISTER_BROKER, broker_id=broker_id)

    def register_broker(
        self,
        broker_id: int,
        root: str | PathLike[str],
        *,
        rack: str | None = None,
        root_mode: int = ROOT_MODE,
    ) -> None:
        """Decide a registration, without what it begins with: writing an identity to the root.

        Raises:
            InvalidRootError: The root can't be reached.
            InconsistentClusterIdError, DuplicateBrokerRegistrationError: It is another's.
        """
        check_mode(root_mode)
        url = normalize(root)
        known = check_reachable(url, self._services.options)
        if known is not None:
            cluster_id = self.image.cluster_id
            assert cluster_id is not None, "it was made"
            check_owner(known, url, cluster_id, BrokerId(broker_id))
        # A disk that is none yet would be given an identity of its own.
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


REHEARSED: Final = frozenset(
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
"""What a rehearsal can do: it reads, or is decided and no more. Any other method is refused before
it begins, also one that is added later: an append would write and commit."""


def _refused(name: str) -> Callable[..., NoReturn]:
    def refuse(rehearsal: Rehearsal, *arguments: object, **named: object) -> NoReturn:
        raise InvalidRequestError(
            f"{name.replace('_', ' ')} can't be done as a dry run, which writes nothing:"
            " do it without --dry-run"
        )

    return refuse


for _name in dir(Cluster):
    _is_method = isinstance(getattr_static(Cluster, _name), FunctionType)
    if _is_method and not _name.startswith("_") and _name not in REHEARSED:
        setattr(Rehearsal, _name, _refused(_name))


@dataclass(slots=True, kw_only=True)
class Session:
    """One call of the command line.

    Attributes:
        cluster: Opened; a rehearsal of it for a dry run.
        options: Credentials of all roots.
        output: How the answer is written.
        is_yes: What can't be undone is done without a question.
        rehearsal: The same as `cluster` for a dry run; else None.
        is_past: The cluster was opened as it was, with --as-of.
    """

    cluster: Cluster
    options: StorageOptions
    output: Output
    is_yes: bool = False
    rehearsal: Rehearsal | None = None
    is_past: bool = False

    def confirm(self, deed: str, *changes: Change) -> None:
        """Ask before a deed that can't be undone ("deleting 2 topics"); not in a rehearsal.

        `changes` are what the deed is: nobody is asked about what would be refused.

        Raises:
            InvalidRequestError: Nobody can be asked.
            typer.Abort: The answer was no.
            And what a change is refused for.
        """
        if self.rehearsal is None:
            self._rehearse(changes)
            confirm(deed, is_yes=self.is_yes)

    def _rehearse(self, changes: Iterable[Change]) -> None:
        """Decide changes, each on the cluster as it is; one that is refused raises."""
        rehearsal = self.rehearsal or Rehearsal.of(self.cluster)
        for change in changes:
            with suppress(Rehearsed):
                change(rehearsal)

    def do(self, change: Callable[[], T]) -> T | None:
        """Have something changed; in a rehearsal only decided, and the answer is None."""
        try:
            return change()
        except Rehearsed:
            return None

    def do_all(self, changes: Sequence[Change]) -> None:
        """Have several things changed: all are decided before the first is done, so that one that
        is refused leaves nothing half done."""
        self._rehearse(changes)
        if self.rehearsal is None:
            for change in changes:
                change(self.cluster)

    def conclude(self, words: str | Sequence[str], answer: Mapping[str, Any]) -> None:
        """Say what was done, in a line or several: the answer, or for a dry run the records that
        it would have been."""
        if self.rehearsal is None:
            if self.output is Output.JSON:
                write_json({"dry_run": False, **answer})
            else:
                say(*([words] if isinstance(words, str) else words))
            return
        rows = decided_rows(self.rehearsal.decided, self.cluster.image)
        if self.output is Output.JSON:
            write_json({"dry_run": True, "records": rows})
            return
        write_table(RECORD_COLUMNS, rows)
        say(f"A dry run: {plural(len(rows), 'record')} would be committed, and nothing was.")


@contextmanager
def opened(
    cluster: str,
    storage_option: list[str] | None,
    output: Output,
    *,
    dry_run: bool = False,
    yes: bool = False,
    as_of: str | None = None,
) -> Iterator[Session]:
    """Open the cluster at the URL `cluster` for one call; `as_of`: as it was at a moment.

    Raises:
        ClusterNotFoundError: There is none.
        InvalidRequestError: A storage option is not NAME=VALUE, or `as_of` is no moment of it.
    """
    options = pairs(storage_option, "--storage-option")
    kind = Rehearsal if dry_run else Cluster
    with kind.open(cluster, as_of=moment(as_of), storage_options=options) as handle:
        yield Session(
            cluster=handle,
            options=StorageOptions(options),
            output=output,
            is_yes=yes,
            rehearsal=handle if isinstance(handle, Rehearsal) else None,
            is_past=as_of is not None,
        )
