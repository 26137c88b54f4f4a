"""A cluster that one call of the command line opens: asked, changed, or changed in a dry run."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kafka_on_spark.cli.call.options import DryRunEnd, moment, pairs
from kafka_on_spark.cli.call.output import (
    Output,
    confirm,
    plural,
    progress,
    say,
    write_json,
    write_table,
)
from kafka_on_spark.cluster.cluster import Cluster
from kafka_on_spark.storage.roots.roots import StorageOptions

if TYPE_CHECKING:
    from kafka_on_spark.cli.call.dry_run import DryRun

T = TypeVar("T")

Change = Callable[[Cluster], object]
"""A change, given the cluster or its dry run."""


@dataclass(slots=True, kw_only=True)
class Session:
    """One call of the command line.

    Attributes:
        cluster: The open cluster; for a dry run, the cluster that decides only.
        options: Credentials of all roots.
        output: How the answer is written.
        is_yes: A change that can't be undone is made without a question.
        dry_run: What `cluster` belongs to, if this is a dry run; else None.
        is_past: The cluster was opened as of a past moment, with --as-of.
    """

    cluster: Cluster
    options: StorageOptions
    output: Output
    is_yes: bool = False
    dry_run: "DryRun | None" = None
    is_past: bool = False

    def confirm(self, deed: str, *changes: Change) -> None:
        """Ask before a deed that can't be undone ("deleting 2 topics"); a dry run asks nothing.

        `changes` make up the deed. They are decided first, so that a refused deed asks nothing.

        Raises:
            InvalidRequestError: There is no terminal to ask at.
            typer.Abort: The answer was no.
            Also each error that a change raises.
        """
        if self.dry_run is None:
            with progress("checking the change"):
                self.decide(changes)
            confirm(deed, is_yes=self.is_yes)

    def decide(self, changes: Iterable[Change]) -> None:
        """Decide each change on the cluster as it is, and make none; a refused change raises."""
        # In the function: most calls decide nothing without its commit.
        from kafka_on_spark.cli.call.dry_run import DryRun

        dry_run = self.dry_run or DryRun(self.cluster)
        for change in changes:
            with suppress(DryRunEnd):
                change(dry_run.cluster)

    def do(self, change: Callable[[], T], words: str = "changing the cluster") -> T:
        """Make a change and return its answer; `words` say what is done, should it last.

        Raises:
            DryRunEnd: This is a dry run, and the change was decided.
        """
        with progress(words):
            return change()

    def do_all(self, changes: Sequence[Change]) -> None:
        """Make several changes. All are decided before the first is made: if one is refused, none
        is made.

        Raises:
            DryRunEnd: This is a dry run, and the changes were decided.
        """
        with progress("changing the cluster", len(changes)) as steps:
            self.decide(changes)
            if self.dry_run is not None:
                raise DryRunEnd
            for change in changes:
                change(self.cluster)
                steps.advance()

    def conclude(self, words: str | Sequence[str], answer: Mapping[str, Any]) -> None:
        """Say what was done, in one line or several; a dry run shows the records instead."""
        if self.dry_run is not None:
            self.show_decided()
        elif self.output is Output.JSON:
            write_json({"dry_run": False, **answer})
        else:
            say(*([words] if isinstance(words, str) else words))

    def show_decided(self) -> None:
        """Show the records that this dry run has decided."""
        # In the function: most calls are no dry runs.
        from kafka_on_spark.cli.call.record_rows import RECORD_COLUMNS, decided_rows

        assert self.dry_run is not None, "only a dry run decides without a commit"
        rows = decided_rows(self.dry_run.decided, self.cluster.image)
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
    """Open the cluster at the URL `cluster` for one call; `as_of`: as it was at that moment.

    Raises:
        ClusterNotFoundError: There is no cluster at the URL.
        InvalidRequestError: A storage option is not NAME=VALUE, or `as_of` is no moment of it.
    """
    options = pairs(storage_option, "--storage-option")
    # A long metadata log takes a while.
    with progress("opening the cluster"):
        handle = Cluster.open(cluster, as_of=moment(as_of), storage_options=options)
    with handle:
        decided = _dry_run_of(handle) if dry_run else None
        session = Session(
            cluster=handle if decided is None else decided.cluster,
            options=StorageOptions(options),
            output=output,
            is_yes=yes,
            dry_run=decided,
            is_past=as_of is not None,
        )
        try:
            yield session
        except DryRunEnd:
            session.show_decided()


def _dry_run_of(cluster: Cluster) -> "DryRun":
    from kafka_on_spark.cli.call.dry_run import DryRun

    return DryRun(cluster)
