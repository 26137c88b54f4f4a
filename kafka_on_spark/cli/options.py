"""Options that verbs share, what their texts mean, and exit codes."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.moments import micros_of
from kafka_on_spark.cli.output import Output

ClusterUrl = Annotated[
    str,
    typer.Option(
        "--cluster",
        "--bootstrap-server",
        "--metadata-root",
        envvar="KAFKA_ON_SPARK_CLUSTER",
        metavar="URL",
        help="The cluster's metadata root: a folder or a URL; or several, with commas between.",
    ),
]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="NAME=VALUE",
        help="A storage option, such as AWS_REGION=eu-west-1; may be given more than once.",
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="MOMENT",
        help="Show the cluster as it was at a metadata offset, or at a time such as"
        " 2026-11-21T13:00:00Z.",
    ),
]
Format = Annotated[Output, typer.Option("--output", help="A table, or JSON for scripts.")]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Decide, show the records that would be committed, and commit nothing."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Don't ask before a change that can't be undone.")]

Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Do not say how many records were handled.")
]
Topics = Annotated[
    str, typer.Option("--topic", metavar="NAMES", help="Topics, with commas between.")
]
Include = Annotated[
    str | None,
    typer.Option(
        "--include",
        "--topics-include",
        metavar="EXPRESSION",
        help="All topics whose whole name this regular expression matches.",
    ),
]

FOUND: Final = 1
FAILED: Final = 2
UNKNOWN: Final = 3
INTERRUPTED: Final = 130
UNREAD: Final = 141
"""The exit code of a process that SIGPIPE ended: 128 + 13."""


class DryRunEnd(Exception):  # noqa: N818 - not an error: a dry run ends where a commit would follow
    """A change was decided."""


def mode_of(text: str) -> int:
    """Return the permissions that chmod's octal digits in `text` mean.

    Raises:
        InvalidRequestError: `text` is no such digits.
    """
    if re.fullmatch(r"0?[0-7]{3}", text) is None:
        raise InvalidRequestError(
            f"--root-mode can't be {text!r}: give permissions as chmod takes them, such as 700 or"
            " 770"
        )
    return int(text, 8)


RootMode = Annotated[
    int,
    typer.Option(
        "--root-mode",
        metavar="MODE",
        parser=mode_of,
        help="Permissions of new folders for roots, as chmod takes them; 700 by default.",
    ),
]


def pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """Return the names and values of texts NAME=VALUE.

    Raises:
        InvalidRequestError: A text is not NAME=VALUE.
    """
    found = {}
    for each in given or ():
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise InvalidRequestError(f"{option} can't be {each!r}: give NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def moment(text: str | None) -> datetime | int | None:
    """Return a past moment as `Cluster.open` takes it; a time without a zone is UTC.

    Raises:
        InvalidRequestError: `text` is neither a metadata offset nor a time.
    """
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequestError(
            f"--as-of can't be {text!r}: give a metadata offset, or a time such as"
            " 2026-11-21T13:00:00Z"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def micros(text: str, option: str) -> int:
    """Return µs since 1970 UTC: of milliseconds, or of a time with its zone.

    Raises:
        InvalidRequestError: `text` is neither.
    """
    if re.fullmatch(r"\d{1,15}", text, re.ASCII):
        return int(text) * 1000
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise InvalidRequestError(
            f"{option} can't be {text!r}: give milliseconds since 1970, or a time with its zone,"
            " such as 2026-01-31T12:00:00Z"
        )
    return micros_of(found)


def numbers(text: str, option: str) -> list[int]:
    """Return the whole numbers of a list with commas.

    Raises:
        InvalidRequestError: `text` is no such list.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise InvalidRequestError(
            f"{option} can't be {text!r}: give whole numbers with commas between, as in 1,2,3"
        )
    return [int(part) for part in parts]
