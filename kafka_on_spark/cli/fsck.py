"""`fsck`: checks all tables of a cluster against the invariants, version by version."""

from typing import Annotated

import typer

from kafka_on_spark.cli.actions import alone
from kafka_on_spark.cli.options import FOUND
from kafka_on_spark.cli.output import Output, say, write_json, write_table
from kafka_on_spark.cli.session import Session
from kafka_on_spark.fsck.findings import FsckReport
from kafka_on_spark.fsck.fsck_services import check_cluster


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
    lines.append("Nothing was found." if report.is_clean else f"{len(report.findings)} findings.")
    return lines
