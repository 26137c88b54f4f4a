"""Options that verbs share, and the check that options go with the action of a verb.

Kafka's tools have one flag for each action (`--create`, `--list`). A call gives exactly one, and an
option that does not go with it is refused rather than ignored.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar

import typer

from kafka_on_spark.cli.call.output import Output
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.query.moments import micros_of
from kafka_on_spark.storage.identity.root_identity import ROOT_MODE

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

RootMode = Annotated[
    str | None,
    typer.Option(
        "--root-mode",
        metavar="MODE",
        help="Permissions of new folders for roots, as chmod takes them; 700 by default.",
    ),
]

Topic = Annotated[str, typer.Option("--topic", metavar="NAME", help="The topic.")]
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
        metavar="EXPRESSION",
        help="All topics whose whole name this regular expression matches.",
    ),
]

T = TypeVar("T")

FOUND: Final = 1
FAILED: Final = 2
UNKNOWN: Final = 3
INTERRUPTED: Final = 130
UNREAD: Final = 141
"""The exit code of a process that SIGPIPE ended: 128 + 13."""


class DryRunEnd(Exception):  # noqa: N818 - not an error: a dry run ends where a commit would follow
    """A change was decided."""


OPTIONAL_VALUES: Final = {"--state": "all"}
"""Options whose value may be left out, and the value that they have then. Source:
kafka-consumer-groups."""

SHARED = ("cluster", "storage_option", "output")
CHANGING = ("dry_run", "yes")


def chosen_action(
    context: typer.Context, actions: Mapping[str, Sequence[str]], default: str | None = None
) -> str:
    """Return the action that the call asks for; `actions` map to the parameters that go with each.

    Raises:
        InvalidRequestError: The call gives no action, several, or an option that does not go with
            its action.
    """
    given = [name for name, value in context.params.items() if _is_given(value)]
    asked = [name for name in actions if name in given]
    if not asked and default is not None:
        asked = [default]
    if len(asked) != 1:
        found = " and ".join(map(_flag, asked)) or "none"
        raise InvalidRequestError(
            f"{context.info_name} takes one action, and was given {found}: choose one of"
            f" {', '.join(map(_flag, actions))}"
        )
    [action] = asked
    for name in given:
        if name not in (action, *actions[action], *SHARED):
            fitting = [each for each, names in actions.items() if name in names]
            with_what = _flag(action) if action in context.params else context.info_name
            raise InvalidRequestError(
                f"{_flag(name)} does not go with {with_what}: leave it out"
                + (f", or use it with {' or '.join(map(_flag, fitting))}" if fitting else "")
            )
    return action


def _is_given(value: Any) -> bool:
    return value is not None and value is not False and value not in ([], ())


def _flag(name: str) -> str:
    return "--" + name.rstrip("_").replace("_", "-")


def needed(value: T | None, option: str, words: str) -> T:
    """Return the value of an option that the action needs.

    Raises:
        InvalidRequestError: The option was not given.
    """
    if value is None or value in ([], ()):
        raise InvalidRequestError(f"{option} is missing: {words}")
    return value


def mode_of(text: str | None) -> int:
    """Return the permissions that chmod's octal digits in `text` mean; None means the default.

    Raises:
        InvalidRequestError: `text` is no such digits.
    """
    if text is None:
        return ROOT_MODE
    if re.fullmatch(r"0?[0-7]{3}", text) is None:
        raise InvalidRequestError(
            f"--root-mode can't be {text!r}: give permissions as chmod takes them, such as 700 or"
            " 770"
        )
    return int(text, 8)


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
