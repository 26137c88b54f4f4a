"""Options as Kafka's tools spell them, where a parser of options alone does not read them.

`--command-config FILE` is a file of a client's properties; of those, `storage.…` say here how roots
are reached, and the others are for a connection that there is none of. And `--state` has a value or
none.
"""

from collections.abc import Sequence
from typing import Final

from kafka_on_spark.cli.options import pairs, properties_of
from kafka_on_spark.cli.output import note
from kafka_on_spark.errors import InvalidRequestError

COMMAND_CONFIG: Final = "--command-config"
STORAGE: Final = "storage."
OPTIONAL_VALUES: Final = {"--state": "all"}
"""Options whose value may be left out, and what they say then."""


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
    """Return a call's arguments with storage options in the place of the file that has them.

    Raises:
        InvalidRequestError: The file is not named, can't be read, or is none of properties.
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
            f"What {path} says of {', '.join(sorted(others))} is for a connection to a server, and"
            " means nothing here."
        )
    return options
