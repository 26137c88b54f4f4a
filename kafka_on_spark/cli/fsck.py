"""`fsck`: checks all tables of a cluster against the invariants, version by version."""

from typing import Annotated, Final

import typer

from kafka_on_spark.audit.findings import FsckReport
from kafka_on_spark.cli.actions import alone
from kafka_on_spark.cli.options import FOUND
from kafka_on_spark.cli.output import Output, plural, say, write_json, write_table
from kafka_on_spark.cli.session import Session
from kafka_on_spark.spark.wiring.fsck_services import check_cluster

ORPHANS_SHOWN: Final = 20
WHAT_ORPHANS_ARE: Final = (
    "An orphan is a file or a table that no log names: an interrupted append wrote it, or it is"
    " left of a deleted replica, topic or record. It holds no record of the cluster, and only"
    " takes space."
)


@alone(is_open=False)
def fsck(
    session: Session,
    quick: Annotated[
        bool, typer.Option(help="Read only the tables' logs, not the segments.")
    ] = False,
) -> None:
    """Check all tables of a cluster against the invariants, version by version.

    Changes nothing. The exit code is 0 if nothing was found, 1 if something was, 2 if the cluster
    could not be checked.
    """
    report = check_cluster(
        session.url,
        deep=not quick,
        storage_options=session.storage_options,
    )
    if session.output is Output.JSON:
        write_json(report.as_dict())
    else:
        _show(report)
    raise typer.Exit(0 if report.is_clean else FOUND)


def _show(report: FsckReport) -> None:
    findings = (
        {
            "invariant": each.invariant or "unchecked",
            "where": str(each.place),
            "what": each.sentence,
        }
        for each in report.findings
    )
    write_table("invariant where what", findings)
    orphans = (
        {
            "orphan": "may be deleted" if each.is_deletable else "stays",
            "kind": each.kind,
            "path": each.path,
            "why": each.reason,
        }
        for each in report.orphans[:ORPHANS_SHOWN]
    )
    write_table("orphan kind path why", orphans)
    say(*_summary(report))


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
