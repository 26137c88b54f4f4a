"""Prints the quickstart's output: numbered steps, their progress and their times."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Output:
    """Prints to a terminal, with a progress bar; elsewhere plain lines."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._durations: list[tuple[str, float]] = []
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        """Print lines below the heading of the step."""
        for line in text.splitlines():
            self._console.print(f"   {line}".rstrip(), markup=False)

    def table(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Print rows as a table."""
        self.say(pd.DataFrame(list(rows)).to_string(index=False))

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Print the heading of the next step, and measure its time."""
        self._console.print(f"\n[bold]{len(self._durations) + 1}  {name}[/bold]")
        started = time.monotonic()
        yield
        self._durations.append((name, time.monotonic() - started))

    def failure(self, text: str) -> None:
        """Print why the run failed, in one sentence."""
        self._console.print("\n[bold]The quickstart has failed:[/bold] ", end="")
        self._console.print(text, markup=False)

    def summary(self) -> None:
        """Print the steps with their times."""
        total = time.monotonic() - self._started
        self._console.print()
        for name, seconds in (*self._durations, ("all", total)):
            self.say(f"{seconds:7.1f} s  {name}")

    @contextmanager
    def progress(self, total: int) -> Iterator["Advance"]:
        """Show how many of `total` records are done."""
        bar = Progress(
            TextColumn("  "),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("records"),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        with bar:
            yield Advance(self, bar, total)


class Advance:
    """Moves a progress bar; without a terminal, prints a line for each move."""

    def __init__(self, output: Output, bar: Progress, total: int) -> None:
        self._output = output
        self._bar = bar
        self._total = total
        self._task = bar.add_task("records", total=total)

    def __call__(self, done: int, note: str = "") -> None:
        """Show that `done` records are done; `note` says more of this move."""
        self._bar.update(self._task, completed=done)
        if self._bar.disable:
            self._output.say(f"{done:,} of {self._total:,} records{note}")
