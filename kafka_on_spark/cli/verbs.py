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

from kafka_on_spark.cli.call.importing import imports_kept
from kafka_on_spark.cli.call.output import say
from kafka_on_spark.cli.call.plain_values import with_plain_values
from kafka_on_spark.cli.kafka.kafka_refusals import check_not_refused
from kafka_on_spark.cli.kafka.kafka_spellings import (
    own_and_rest,
    with_command_config,
    with_optional_values,
)
from kafka_on_spark.ids import whole_number
from kafka_on_spark.version import __version__

NAME: Final = "kafka-on-spark"

PLACES: Final = {
    "cluster": "cluster.clusters",
    "topics": "topics.topics",
    "configs": "topics.configs",
    "reassign-partitions": "topics.reassignment",
    "leader-election": "cluster.leaders",
    "produce": "produce.produce",
    "consume": "consume.consume",
    "get-offsets": "groups.offsets",
    "delete-records": "groups.offsets",
    "consumer-groups": "groups.groups",
    "dump-log": "logs.dump_log",
    "log-dirs": "topics.replicas",
    "replica-verification": "topics.replicas",
    "replicas": "cluster.lost_replicas",
    "brokers": "cluster.brokers",
    "controller": "cluster.controller",
    "serve": "serve.serve",
    "console": "serve.console",
    "replicate": "topics.replication",
    "maintain": "cluster.maintenance",
    "metadata": "cluster.metadata",
    "metadata-quorum": "cluster.quorum",
    "fsck": "logs.fsck",
    "cost": "cost.cost",
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
    with imports_kept():
        module = import_module(f"{__package__}.{place}")
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command(name, cls=Verb)(getattr(module, name.replace("-", "_")))
    return get_command(alone)


class Verb(TyperCommand):
    """A verb that reads whole numbers as Kafka's tools do: Python alone also takes "1_000"."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read a call's options.

        Raises:
            typer.BadParameter: An option has a value that is not allowed.
            InvalidRequestError: A file of options can't be read, or an option of Kafka's means
                nothing here.
        """
        own, rest = own_and_rest(args)
        if "--version" in own:
            say_version(True)
        args = [*with_command_config(ctx.info_name, with_optional_values(own)), *rest]
        given = self._parsed(ctx, args)
        options: list[Any] = self.params
        for option in options:
            text = given.get(option.name)
            if isinstance(text, str) and _is_number(option):
                try:
                    whole_number(text)
                except ValueError:
                    sentence = f"{text!r} is not a valid integer"
                    raise typer.BadParameter(sentence, ctx=ctx, param=option) from None
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all options, `--help` too."""
        return with_plain_values(super().get_params(ctx))

    def _parsed(self, ctx: Any, args: list[str]) -> dict[str, Any]:
        try:
            given: dict[str, Any] = self.make_parser(ctx).parse_args(args=list(args))[0]
        except typer.TyperException as error:
            # Only the parser tells an option from another one's value, and -qb from -q -b.
            check_not_refused(ctx.info_name, getattr(error, "option_name", ""))
            raise
        return given


def _is_number(option: Any) -> bool:
    return option.type_descriptor.annotation is int


def say_version(is_asked: bool) -> None:
    """Say the version and end the call, if that is asked for."""
    if is_asked:
        say(f"{NAME} {__version__}")
        raise typer.Exit
