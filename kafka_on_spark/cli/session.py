"""A cluster that one call of the command line opens: asked, changed, or changed in a dry run."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

import typer

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.visible import visible
from kafka_on_spark.cli.options import DryRunEnd, moment, pairs
from kafka_on_spark.cli.output import (
    Output,
    plural,
    say,
    write_answer,
    write_json,
    write_table,
)
from kafka_on_spark.cluster import Cluster
from kafka_on_spark.store.roots import StorageOptions

if TYPE_CHECKING:
    from kafka_on_spark.cli.dry_run import DryRun

T = TypeVar("T")

Change = Callable[[Cluster], object]
"""A change, given the cluster or its dry run."""


class Session:
    """One call of the command line.

    Attributes:
        url: The cluster's.
        cluster: The open cluster; of a dry run, the cluster that decides only.
        storage_options: Credentials of all roots, as they were given.
        options: The same, as roots take them.
        output: How the answer is written.
        is_yes: A change that can't be undone is made without a question.
        is_dry_run: Changes are decided, and not made.
        is_past: The cluster is opened as of a past moment, with --as-of.
    """

    def __init__(
        self,
        url: str,
        storage_option: Sequence[str] | None,
        output: Output = Output.TABLE,
        *,
        dry_run: bool = False,
        yes: bool = False,
        as_of: str | None = None,
    ) -> None:
        self.url = url
        self.storage_options = pairs(storage_option, "--storage-option")
        self.options = StorageOptions(self.storage_options)
        self.output = output
        self.is_yes = yes
        self.is_dry_run = dry_run
        self.is_past = as_of is not None
        self._as_of = moment(as_of)

    @contextmanager
    def opened(self) -> Iterator[Self]:
        """Have the cluster open. What ends a dry run within shows the records.

        Raises:
            ClusterNotFoundError: There is no cluster at the URL.
            InvalidRequestError: The moment is none of it.
        """
        handle = Cluster.open(self.url, as_of=self._as_of, storage_options=self.storage_options)
        with handle:
            self.cluster = handle
            if self.is_dry_run:
                self.cluster = self.dry_run
            try:
                yield self
            except DryRunEnd:
                self.show_decided()

    @cached_property
    def dry_run(self) -> "DryRun":
        """Decides changes of the open cluster."""
        # In the function: most calls decide nothing without its commit.
        from kafka_on_spark.cli.dry_run import DryRun

        return DryRun(self.cluster)

    def confirm(self, deed: str) -> None:
        """Ask before a deed that can't be undone ("deleting 2 topics"); a dry run asks nothing.

        Raises:
            InvalidRequestError: There is no terminal to ask at, and --yes was not given.
            typer.Abort: The answer was no.
        """
        if self.is_dry_run or self.is_yes:
            return
        if not sys.stdin.isatty():
            raise InvalidRequestError(
                f"{deed} can't be undone, and there is no terminal to ask at: give --yes to do it"
            )
        question = f"{deed[0].upper()}{deed[1:]} can't be undone. Go on?"
        typer.confirm(visible(question), abort=True, err=True)

    def decide(self, changes: Iterable[Change]) -> None:
        """Decide each change on the cluster as it is, and make none; a refused change raises."""
        for change in changes:
            with suppress(DryRunEnd):
                change(self.dry_run)

    def do_all(self, changes: Sequence[Change]) -> None:
        """Make several changes. All are decided before the first is made: if one is refused, none
        is made.

        Raises:
            DryRunEnd: This is a dry run, and the changes were decided.
        """
        self.decide(changes)
        if self.is_dry_run:
            raise DryRunEnd
        for change in changes:
            change(self.cluster)

    def conclude(self, answer: Mapping[str, Any], *words: str) -> None:
        """Say what was done, to people in lines of `words` if there are any; a dry run shows the
        records instead."""
        if self.is_dry_run:
            self.show_decided()
        elif self.output is Output.JSON:
            write_json({"dry_run": False, **answer})
        elif words:
            say(*words)
        else:
            write_answer(self.output, answer)

    def show_decided(self) -> None:
        """Show the records that this dry run has decided."""
        # In the function: most calls are no dry runs.
        from kafka_on_spark.cli.record_rows import RECORD_COLUMNS, decided_rows

        rows = decided_rows(self.dry_run.decided, self.cluster.image)
        if self.output is Output.JSON:
            write_json({"dry_run": True, "records": rows})
            return
        write_table(RECORD_COLUMNS, rows)
        say(f"A dry run: {plural(len(rows), 'record')} would be committed, and nothing was.")
