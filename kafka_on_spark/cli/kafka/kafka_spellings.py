"""Kafka's spellings of options that an options parser alone does not read.

`--command-config FILE` is a file of a client's properties. Here `storage.…` are storage options;
the others concern a connection to a server, and there is none. `--state` may have a value or none.
"""

from collections.abc import Sequence
from typing import Final

from kafka_on_spark.cli.call.options import pairs, properties_of
from kafka_on_spark.cli.call.output import note
from kafka_on_spark.errors import InvalidRequestError

COMMAND_CONFIG: Final = "--command-config"
STORAGE: Final = "storage."
OPTIONAL_VALUES: Final = {"--state": "all"}
"""Options whose value may be left out, and the value that they have then."""


def with_optional_values(arguments: Sequence[str]) -> list[str]:
    """Return a call's arguments with a value for each option that may have none."""
    found: list[str] = []
    for place, argument in enumerate(arguments):
        following = arguments[place + 1 : place + 2]
        if argument in OPTIONAL_VALUES and (not following or following[0].startswith("-")):
            argument = f"{argument}={OPTIONAL_VALUES[argument]}"
        found.append(argument)
    return found


def with_command_config(arguments: Sequence[str]) -> list[str]:
    """Return a call's arguments with storage options in place of the file that holds them.

    Raises:
        InvalidRequestError: The file is not named, can't be read, or is no properties file.
    """
    found: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        option, equals, file = argument.partition("=")
        if option != COMMAND_CONFIG:
            found.append(argument)
            continue
        path = file if equals else next(remaining, None)
        if not path:
            raise InvalidRequestError(f"{COMMAND_CONFIG} is missing a file: name one")
        found.extend(_storage_options(path))
    return found


def _storage_options(path: str) -> list[str]:
    options, others = [], []
    for name, value in pairs(properties_of(path, COMMAND_CONFIG), COMMAND_CONFIG).items():
        if name.startswith(STORAGE):
            options += ["--storage-option", f"{name.removeprefix(STORAGE)}={value}"]
        else:
            others.append(name)
    if others:
        note(
            f"{path} has settings of a connection to a server, which are ignored:"
            f" {', '.join(sorted(others))}."
        )
    return options
