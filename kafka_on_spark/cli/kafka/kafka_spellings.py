"""Kafka's spellings of options that an options parser alone does not read.

`--command-config FILE` is a file of a client's properties. Here `storage.…` are storage options.
Verbs that append or read take the client's own settings, as from options. Those of a connection to
a server are ignored, for there is none. `--state` may have a value or none.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from kafka_on_spark.cli.call.options import pairs, properties_of
from kafka_on_spark.cli.call.output import note
from kafka_on_spark.cli.kafka.properties import (
    PROPERTIES_OF_CONSUMERS,
    PROPERTIES_OF_PRODUCERS,
    REFUSED_OF_CONSUMERS,
    REFUSED_OF_PRODUCERS,
)
from kafka_on_spark.errors import InvalidRequestError

COMMAND_CONFIG: Final = "--command-config"
OLD_CONFIG: Final[Mapping[str | None, str]] = {
    "consume": "--consumer.config",
    "produce": "--producer.config",
}
"""The option's earlier names in Kafka's console tools."""

STORAGE: Final = "storage."
OF_A_CONNECTION: Final = (
    "auto.include.jmx.reporter",
    "bootstrap.",
    "client.dns.lookup",
    "client.id",
    "connections.max.idle.ms",
    "default.api.timeout.ms",
    "enable.metrics.push",
    "metadata.",
    "metric.reporters",
    "metrics.",
    "receive.buffer.bytes",
    "reconnect.backoff.",
    "request.timeout.ms",
    "retry.backoff.",
    "sasl.",
    "security.",
    "send.buffer.bytes",
    "socket.connection.",
    "ssl.",
)
"""How settings of a connection begin. Source: AdminClientConfig."""

PROPERTY_OPTIONS: Final[Mapping[str | None, str]] = {
    "consume": "--consumer-property",
    "produce": "--producer-property",
}
"""Verbs that are a client, and the option that takes a setting of one."""

OF_CLIENTS: Final = frozenset(
    (
        *PROPERTIES_OF_CONSUMERS,
        *PROPERTIES_OF_PRODUCERS,
        *REFUSED_OF_CONSUMERS,
        *REFUSED_OF_PRODUCERS,
    )
)
"""Settings in a file that clients share with verbs that neither append nor read."""

NAMES_GROUPS: Final = ("consumer-groups",)
OPTIONAL_VALUES: Final = {"--state": "all"}
"""Options whose value may be left out, and the value that they have then."""


def own_and_rest(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return a call's own options, and all from -- on, which are none: `cost` makes a call of it,
    with options of another verb."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return list(arguments[:end]), list(arguments[end:])


def with_optional_values(arguments: Sequence[str]) -> list[str]:
    """Return a call's arguments with a value for each option that may have none."""
    found: list[str] = []
    for place, argument in enumerate(arguments):
        following = arguments[place + 1 : place + 2]
        if argument in OPTIONAL_VALUES and (not following or following[0].startswith("-")):
            argument = f"{argument}={OPTIONAL_VALUES[argument]}"
        found.append(argument)
    return found


def with_command_config(verb: str | None, arguments: Sequence[str]) -> list[str]:
    """Return a call's arguments with options in place of the file that holds their values.

    Raises:
        InvalidRequestError: The file is not named, can't be read, or is no properties file; or it
            has a setting that would not be obeyed.
    """
    found: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        option, equals, file = argument.partition("=")
        if option not in (COMMAND_CONFIG, OLD_CONFIG.get(verb)):
            found.append(argument)
            continue
        path = file if equals else next(remaining, None)
        if not path:
            raise InvalidRequestError(f"{option} is missing a file: name one")
        # In front: what the call says itself comes later, and wins.
        found[:0] = _options_of(path, option, verb)
    return found


def _options_of(path: str, option: str, verb: str | None) -> list[str]:
    options, ignored = [], []
    for name, value in pairs(properties_of(path, option), option).items():
        if name.startswith(STORAGE):
            options += ["--storage-option", f"{name.removeprefix(STORAGE)}={value}"]
        elif name.startswith(OF_A_CONNECTION):
            ignored.append(name)
        elif verb in PROPERTY_OPTIONS:
            options += [PROPERTY_OPTIONS[verb], f"{name}={value}"]
        else:
            _check_of_a_client(name, path, verb)
            ignored.append(name)
    if ignored:
        note(
            f"{path} has settings of a connection to a server, or of a client that appends or"
            f" reads, which are ignored: {', '.join(sorted(ignored))}."
        )
    return options


def _check_of_a_client(name: str, path: str, verb: str | None) -> None:
    if name == "group.id" and verb in NAMES_GROUPS:
        raise InvalidRequestError(
            f"{path} gives {name!r}, and {verb} takes groups from its options alone: give --group"
        )
    if name not in OF_CLIENTS:
        raise InvalidRequestError(
            f"{path} gives {name!r}, which nothing obeys: give storage options, as"
            f" {STORAGE}NAME=VALUE, or Kafka's settings of clients"
        )
