"""The verbs in one application, what becomes of errors, and the exit codes.

Exit codes: 0 it was done, and all is well; 1 something was found (by `fsck`, `dump-log --verify`
or `replica-verification`) or is not complete (`reassign-partitions --verify`, `replicate`); 2 it
could not be done, why is one sentence on standard error; 130 interrupted; 141 nobody reads the
answer any more.
"""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from kafka_on_spark.cli.brokers import brokers
from kafka_on_spark.cli.clusters import cluster
from kafka_on_spark.cli.configs import configs
from kafka_on_spark.cli.controller import controller
from kafka_on_spark.cli.dump_log import dump_log
from kafka_on_spark.cli.fsck import fsck
from kafka_on_spark.cli.groups import consumer_groups
from kafka_on_spark.cli.kafka_spellings import with_command_config, with_optional_values
from kafka_on_spark.cli.leaders import leader_election
from kafka_on_spark.cli.lost import replicas
from kafka_on_spark.cli.metadata import metadata
from kafka_on_spark.cli.offsets import delete_records, get_offsets
from kafka_on_spark.cli.options import FAILED, INTERRUPTED, UNREAD
from kafka_on_spark.cli.output import say
from kafka_on_spark.cli.reassignment import reassign_partitions
from kafka_on_spark.cli.replicas import log_dirs, replica_verification
from kafka_on_spark.cli.replication import replicate
from kafka_on_spark.cli.topics import topics
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.ids import whole_number
from kafka_on_spark.version import __version__
from kafka_on_spark.visible import visible

NAME: Final = "kafka-on-spark"


class CommandLine(TyperGroup):
    """Verbs whose errors are one sentence each."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **named: Any) -> Any:
        """Run one call, and exit."""
        given = sys.argv[1:] if args is None else list(args)
        try:
            code = super().main(given or ["--help"], *rest, **{**named, "standalone_mode": False})
        except KafkaOnSparkError as error:
            sys.exit(_failed(str(error)))
        except typer.TyperException as error:
            sys.exit(_failed(f"{error.format_message().rstrip('.')}: see --help"))
        except typer.Abort:
            sys.exit(_failed("nothing was done"))
        if code == INTERRUPTED:
            sys.stderr.write(f"{NAME}: interrupted\n")
        sys.exit(code or 0)

    def invoke(self, ctx: Any) -> Any:
        """Run a verb; who reads its answer may go at any time."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except KafkaOnSparkError:
            raise  # one of them is a TimeoutError, too, and so an OSError
        except BrokenPipeError:
            _drop_output()
            raise typer.Exit(UNREAD) from None
        except OSError as error:
            _drop_output()
            sys.exit(_failed(f"{error}: the system refuses that, so the answer is not complete"))


class Verb(TyperCommand):
    """A verb that reads whole numbers as Kafka's tools do, where Python also takes "1_000"."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read a call's options.

        Raises:
            typer.BadParameter: One can't be what is given.
            InvalidRequestError: A file of options can't be read.
        """
        if "--version" in args:
            _say_version(True)
        args = with_command_config(with_optional_values(args))
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
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


def _is_number(option: Any) -> bool:
    return option.type_descriptor.annotation is int


def _drop_output() -> None:
    """Have what is left in the buffer go nowhere: it would fail once more when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(sentence: str) -> int:
    sys.stderr.write(f"{NAME}: {visible(' '.join(sentence.split()))}\n")
    return FAILED


app = typer.Typer(
    name=NAME,
    cls=CommandLine,
    help=(
        "A partitioned, replicated, ordered log on Spark and Delta Lake.\n\n"
        "Exit codes: 0 done, 1 something was found or is not complete, 2 it could not be done."
    ),
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _say_version(is_asked: bool) -> None:
    if is_asked:
        say(f"{NAME} {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", is_eager=True, callback=_say_version),
    ] = False,
) -> None:
    pass


VERBS: Final = (
    cluster,
    topics,
    configs,
    reassign_partitions,
    leader_election,
    get_offsets,
    delete_records,
    consumer_groups,
    dump_log,
    log_dirs,
    replica_verification,
    replicas,
    brokers,
    controller,
    replicate,
    metadata,
    fsck,
)
for verb in VERBS:
    app.command(cls=Verb)(verb)


def main() -> None:
    """Run the command line; errors are one sentence."""
    app(prog_name=NAME)
