"""`fsck`: checks all tables of a cluster against the invariants, version by version."""

from typing import Annotated, Final

import typer

from kafka_on_spark.audit.findings import FsckReport
from kafka_on_spark.cli.call.options import FOUND, ClusterUrl, Format, StorageOption, pairs
from kafka_on_spark.cli.call.output import Output, plural, progress, say, write_json, write_table
from kafka_on_spark.spark.wiring.fsck_services import check_cluster

ORPHANS_SHOWN: Final = 20
FINDING_COLUMNS: Final = {"invariant": "invariant", "where": "where", "what": "what"}
ORPHAN_COLUMNS: Final = {"orphan": "orphan", "kind": "what", "path": "path", "why": "why"}
WHAT_ORPHANS_ARE: Final = (
    "An orphan is a file or a table that no log names: an interrupted append wrote it, or it is"
    " left of a deleted replica, topic or record. It holds no record of the cluster, and only"
    " takes space."
)


def fsck(
    cluster: ClusterUrl,
    quick: Annotated[
        bool, typer.Option("--quick", help="Read only the tables' logs, not the segments.")
    ] = False,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Check all tables of a cluster against the invariants, version by version.

    Changes nothing. The exit code is 0 if nothing was found, 1 if something was, 2 if the cluster
    could not be checked.
    """
    options = pairs(storage_option, "--storage-option")
    with progress("reading replicas") as steps:
        report = check_cluster(
            cluster, deep=not quick, storage_options=options, after_replica=steps.advance
        )
    if output is Output.JSON:
        write_json(report.as_dict())
    else:
        _show(report)
    raise typer.Exit(0 if report.is_clean else FOUND)


def _show(report: FsckReport) -> None:
    if report.findings:
        write_table(
            FINDING_COLUMNS,
            [
                {
                    "invariant": each.invariant or "unchecked",
                    "where": str(each.place),
                    "what": each.sentence,
                }
                for each in report.findings
            ],
        )
    if report.orphans:
        write_table(
            ORPHAN_COLUMNS,
            [
                {
                    "orphan": "may be deleted" if each.is_deletable else "stays",
                    "kind": each.kind,
                    "path": each.path,
                    "why": each.reason,
                }
                for each in report.orphans[:ORPHANS_SHOWN]
            ],
        )
    for line in _summary(report):
        say(line)


def _summary(report: FsckReport) -> list[str]:
    versions = sum(each.last_version - each.first_version + 1 for each in report.coverage)
    files = sum(each.read_files for each in report.coverage if each.table.partition is not None)
    read = f"{files} segments" if report.is_deep else "no segments (--quick)"
    lines = [f"Checked {versions} versions of {len(report.coverage)} tables, and {read}."]
    cleaned = [each for each in report.coverage if each.first_version > 0]
    lines += [
        f"The history of {each.table} begins at version {each.first_version}: earlier versions are"
        " cleaned up."
        for each in cleaned
    ]
    lines += [f"Not looked at: {each}." for each in report.not_checked]
    if report.orphans:
        deletable = sum(each.is_deletable for each in report.orphans)
        lines.append(
            f"{plural(len(report.orphans), 'orphan')}, of which {deletable} may be deleted"
            " (--output json lists all)."
        )
        lines.append(WHAT_ORPHANS_ARE)
    lines.append("Nothing was found." if report.is_clean else f"{len(report.findings)} findings.")
    return lines
