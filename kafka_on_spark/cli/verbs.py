"""The verbs of the command line by their names, each imported once it is called.

Apart from `application`: a call needs one verb, and all of them bring most of the project's
modules. `--help` asks for all of them.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand
from typer.main import get_command

from kafka_on_spark.cli.call.options import OPTIONAL_VALUES

NAME: Final = "kafka-on-spark"

PLACES: Final = {
    "cluster": "clusters",
    "topics": "topics",
    "configs": "configs",
    "reassign-partitions": "reassignment",
    "leader-election": "leaders",
    "produce": "produce",
    "consume": "consume",
    "get-offsets": "offsets",
    "delete-records": "offsets",
    "consumer-groups": "groups",
    "dump-log": "dump_log",
    "log-dirs": "replicas",
    "replica-verification": "replicas",
    "replicas": "replicas",
    "brokers": "brokers",
    "controller": "upkeep",
    "serve": "serve.serve",
    "console": "serve.console",
    "replicate": "upkeep",
    "maintain": "upkeep",
    "metadata": "metadata",
    "metadata-quorum": "quorum",
    "fsck": "fsck",
}
"""Verbs in the order of `--help`, and below this package the module that has the verb's function,
which is called as the verb is."""


class Verbs(Mapping[str, TyperCommand]):
    """All verbs."""

    def __getitem__(self, name: str) -> TyperCommand:
        verb: TyperCommand = _verb(name)
        return verb

    def __iter__(self) -> Iterator[str]:
        return iter(PLACES)

    def __len__(self) -> int:
        return len(PLACES)


@cache
def _verb(name: str) -> Any:
    place = PLACES[name]
    module = import_module(f"{__package__}.{place}")
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command(name, cls=Verb)(getattr(module, name.replace("-", "_")))
    return get_command(alone)


class Verb(TyperCommand):
    """A verb, some of whose options have a value or none."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read a call's options."""
        found = list(args)
        for place, option in enumerate(args):
            following = args[place + 1 : place + 2]
            if option in OPTIONAL_VALUES and (not following or following[0].startswith("-")):
                found[place] = f"{option}={OPTIONAL_VALUES[option]}"
        return super().parse_args(ctx, found)
