"""Options that verbs share, what their texts mean, and exit codes."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from kafka_on_spark.base.config import unknown_name
from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import micros_of

OPTIONS: Final = """
    --cluster, --bootstrap-server, --metadata-root URL
        The cluster's metadata root: a folder or a URL; or several, with commas between. Without it,
        KAFKA_ON_SPARK_CLUSTER says.
    --output table|json  A table, or JSON for scripts. [default: table]
    --storage-option NAME=VALUE...
        A storage option, such as AWS_REGION=eu-west-1; may be given more than once.
    --as-of MOMENT
        Show the cluster as it was at a metadata offset, or at a time such as 2026-11-21T13:00:00Z.
    --dry-run  Decide, show the records that would be committed, and commit nothing.
    --yes  Don't ask before a change that can't be undone.
    --topic NAMES  Topics, with commas between.
    --include, --topics-include EXPRESSION
        All topics whose whole name this regular expression matches.
    --partition INTEGER  One partition; without it, all of them.
    --config NAME=VALUE...  A setting; may be given more than once.
    --offset INTEGER>=0  Begin here.
    --limit INTEGER>=0  At most so many rows.
    --quiet, -q  Do not say how many records were handled.
    --root-mode MODE  Permissions of new folders for roots, as chmod takes them; 700 by default.
"""
"""Options that several verbs have. Each has its own beside its actions."""

CLUSTER_VARIABLE: Final = "KAFKA_ON_SPARK_CLUSTER"

FOUND: Final = 1
FAILED: Final = 2
UNKNOWN: Final = 3
INTERRUPTED: Final = 130
UNREAD: Final = 141
"""The exit code of a process that SIGPIPE ended: 128 + 13."""


def mode_of(text: str) -> int:
    """Return the permissions that chmod's octal digits in `text` mean."""
    if re.fullmatch(r"0?7[0-7]{2}", text) is None:
        raise InvalidRequestError(
            f"--root-mode can't be {text!r}: give permissions that the owner has all of, as chmod"
            " takes them, such as 700 or 770"
        )
    return int(text, 8)


def pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """Return the names and values of texts NAME=VALUE, without blanks around them."""
    return {name: value.strip() for name, value in _pairs(given, option)}


def properties_of(given: Sequence[str] | None, option: str, known: Sequence[str]) -> dict[str, str]:
    """Return `known` properties by name. A value keeps its blanks: a separator may be one."""
    found = dict(_pairs(given, option))
    for name in found:
        if name not in known:
            raise InvalidRequestError(unknown_name("property", name, [*known]))
    return found


def _pairs(given: Sequence[str] | None, option: str) -> Iterator[tuple[str, str]]:
    for each in given or ():
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise InvalidRequestError(f"{option} can't be {each!r}: give NAME=VALUE")
        yield name.strip(), value


def parsed_flag(name: str, value: str) -> bool:
    """Return a property that is true or false."""
    word = value.strip().lower()
    if word not in ("true", "false"):
        raise InvalidRequestError(f"property {name} can't be {value!r}: give true or false")
    return word == "true"


def numbers(text: str, option: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise InvalidRequestError(
            f"{option} can't be {text!r}: give whole numbers with commas between, as in 1,2,3"
        )
    return [int(part) for part in parts]


def moment(text: str | None) -> datetime | int | None:
    """Return a past moment as `Cluster.open` takes it."""
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    return time_in(text, "--as-of", "a metadata offset, or a time such as 2026-11-21T13:00:00Z")


def micros(text: str, option: str) -> int:
    """Return µs since 1970 UTC: of milliseconds, or of a time with its zone."""
    if re.fullmatch(r"\d{1,15}", text, re.ASCII):
        return int(text) * 1000
    wanted = "milliseconds since 1970, or a time with its zone, such as 2026-01-31T12:00:00Z"
    return micros_of(time_in(text, option, wanted, needs_zone=True))


def time_in(text: str, option: str, wanted: str, *, needs_zone: bool = False) -> datetime:
    """Return a time; without a zone it is UTC, as in Kafka, unless it needs one."""
    found = None
    with suppress(ValueError):
        found = datetime.fromisoformat(text)
    if found is None or (needs_zone and found.tzinfo is None):
        raise InvalidRequestError(f"{option} can't be {text!r}: give {wanted}")
    return found if found.tzinfo else found.replace(tzinfo=UTC)
