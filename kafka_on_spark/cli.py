"""The command line: verbs that are thin over the library.

What was asked for goes to standard output, a table on a terminal and JSON for scripts; why it
could not be given goes to standard error, in one sentence. Exit codes: 0 all is well, 1 something
was found, 2 it could not be done.
"""

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from kafka_on_spark.audit.findings import FsckReport
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.spark.fsck import check_cluster

FOUND: Final = 1
FAILED: Final = 2
ORPHANS_SHOWN: Final = 20


class Output(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    JSON = "json"


app = typer.Typer(
    name="kafka-on-spark",
    help="A partitioned, replicated, ordered log on Spark and Delta Lake.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Cluster = Annotated[
    str, typer.Argument(metavar="CLUSTER", help="The cluster's metadata root: a folder or a URL.")
]
Option = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="NAME=VALUE",
        help="A storage option, such as AWS_REGION=eu-west-1; may be given more than once.",
    ),
]
Format = Annotated[Output, typer.Option("--output", help="A table, or JSON for scripts.")]


@app.callback()
def _verbs() -> None:
    """Keep verbs verbs while there is one only."""


@app.command()
def fsck(
    cluster: Cluster,
    quick: Annotated[
        bool, typer.Option("--quick", help="Read the tables' logs, not the segments.")
    ] = False,
    output: Format = Output.TABLE,
    storage_option: Option = None,
) -> None:
    """Check all tables of a cluster against what must hold, version by version.

    Changes nothing. Exits with 0 if all is well, 1 if something was found, 2 if the cluster
    could not be checked.
    """
    report = check_cluster(cluster, deep=not quick, storage_options=_options(storage_option))
    if output is Output.JSON:
        _write_json(report.as_dict())
    else:
        _show_report(report)
    raise typer.Exit(0 if report.is_clean else FOUND)


def _options(given: list[str] | None) -> dict[str, str]:
    options = {}
    for each in given or ():
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise typer.BadParameter(
                "give a storage option as NAME=VALUE", param_hint="--storage-option"
            )
        options[name] = value
    return options


def _write_json(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer, indent=2) + "\n")


def _console() -> Console:
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def _show_report(report: FsckReport) -> None:
    console = _console()
    if report.findings:
        rows = [
            (each.invariant or "unchecked", str(each.place), each.sentence)
            for each in report.findings
        ]
        _show_table(console, ("invariant", "where", "what"), rows)
    if report.orphans:
        rows = [
            ("may be deleted" if each.is_deletable else "stays", each.path, each.reason)
            for each in report.orphans[:ORPHANS_SHOWN]
        ]
        _show_table(console, ("orphan", "path", "why"), rows)
    for line in _summary(report):
        console.print(line, markup=False)


def _show_table(console: Console, names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    if not console.is_terminal:
        # Whole lines for whoever reads them by a script that was not meant to.
        for row in rows:
            console.print("  ".join(row), markup=False)
        return
    table = Table(*names)
    for row in rows:
        table.add_row(*map(_plain, row))
    console.print(table)


def _plain(text: str) -> str:
    # Square brackets are markup.
    return text.replace("[", r"\[")


def _summary(report: FsckReport) -> list[str]:
    versions = sum(each.last_version - each.first_version + 1 for each in report.coverage)
    files = sum(each.read_files for each in report.coverage[1:])
    read = f"{files} segments" if report.is_deep else "no segments (--quick)"
    lines = [f"Checked {versions} versions of {len(report.coverage)} tables, and {read}."]
    cleaned = [each for each in report.coverage if each.first_version > 0]
    lines += [
        f"The history of {each.table} begins at version {each.first_version}: what was before is"
        " cleaned up."
        for each in cleaned
    ]
    if report.orphans:
        deletable = sum(each.is_deletable for each in report.orphans)
        lines.append(
            f"{len(report.orphans)} orphans, of which {deletable} may be deleted (--output json"
            " lists all)."
        )
    lines.append("Nothing was found." if report.is_clean else f"{len(report.findings)} findings.")
    return lines


def main() -> None:
    """Run the command line; errors are one sentence."""
    try:
        app()
    except KafkaOnSparkError as error:
        _fail(error.message)


def _fail(sentence: str) -> None:
    sys.stderr.write(f"kafka-on-spark: {' '.join(sentence.split())}\n")
    sys.exit(FAILED)


if __name__ == "__main__":
    main()
