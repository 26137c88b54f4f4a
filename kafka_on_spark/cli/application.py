"""The verbs of the command line in one application, with its errors and exit codes.

Exit codes: 0 the call succeeded; 1 a problem was found (by `fsck`, `dump-log --verify` or
`replica-verification`) or work is left (`reassign-partitions --verify`, `replicate`, `maintain`); 2
the call failed, and one sentence on standard error says why; 3 the same, and nobody knows whether
it took effect; 130 the call was interrupted; 141 the reader of the answer went away.
"""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from kafka_on_spark.cli.call.options import FAILED, INTERRUPTED, UNKNOWN, UNREAD
from kafka_on_spark.cli.call.output import say
from kafka_on_spark.cli.cluster import quorum
from kafka_on_spark.cli.cluster.brokers import brokers
from kafka_on_spark.cli.cluster.clusters import cluster
from kafka_on_spark.cli.cluster.controller import controller
from kafka_on_spark.cli.cluster.leaders import leader_election
from kafka_on_spark.cli.cluster.lost_replicas import replicas
from kafka_on_spark.cli.cluster.maintenance import maintain
from kafka_on_spark.cli.cluster.metadata import metadata
from kafka_on_spark.cli.consume.consume import consume
from kafka_on_spark.cli.cost.cost import cost
from kafka_on_spark.cli.groups.groups import consumer_groups
from kafka_on_spark.cli.groups.offsets import delete_records, get_offsets
from kafka_on_spark.cli.kafka.kafka_refusals import check_not_refused
from kafka_on_spark.cli.kafka.kafka_spellings import with_command_config, with_optional_values
from kafka_on_spark.cli.logs.dump_log import dump_log
from kafka_on_spark.cli.logs.fsck import fsck
from kafka_on_spark.cli.produce.produce import produce
from kafka_on_spark.cli.serve.console import console
from kafka_on_spark.cli.serve.serve import serve
from kafka_on_spark.cli.topics.configs import configs
from kafka_on_spark.cli.topics.reassignment import reassign_partitions
from kafka_on_spark.cli.topics.replicas import log_dirs, replica_verification
from kafka_on_spark.cli.topics.replication import replicate
from kafka_on_spark.cli.topics.topics import topics
from kafka_on_spark.errors import CommitOutcomeUnknownError, KafkaOnSparkError
from kafka_on_spark.ids import whole_number
from kafka_on_spark.version import __version__
from kafka_on_spark.visible import visible

NAME: Final = "kafka-on-spark"


class CommandLine(TyperGroup):
    """The verbs; each error is one sentence."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **named: Any) -> Any:
        """Run one call, and exit."""
        given = sys.argv[1:] if args is None else list(args)
        try:
            code = super().main(given or ["--help"], *rest, **{**named, "standalone_mode": False})
        except CommitOutcomeUnknownError as error:
            _failed(str(error))
            sys.exit(UNKNOWN)
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
        """Run a verb; the reader of its answer may go away at any time."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except KafkaOnSparkError:
            raise  # one subclass is also a TimeoutError, and so an OSError
        except BrokenPipeError:
            _drop_output()
            raise typer.Exit(UNREAD) from None
        except OSError as error:
            _drop_output()
            sys.exit(_failed(f"{error}: the system refuses that, so the answer is not complete"))


class Verb(TyperCommand):
    """A verb that reads whole numbers as Kafka's tools do: Python alone also takes "1_000"."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read a call's options.

        Raises:
            typer.BadParameter: An option has a value that is not allowed.
            InvalidRequestError: A file of options can't be read, or an option of Kafka's means
                nothing here.
        """
        if "--version" in args:
            _say_version(True)
        check_not_refused(ctx.info_name, args)
        args = with_command_config(ctx.info_name, with_optional_values(args))
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
    """Discard the rest of the buffer: Python would fail on it again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(sentence: str) -> int:
    sys.stderr.write(f"{NAME}: {visible(' '.join(sentence.split()))}\n")
    return FAILED


app = typer.Typer(
    name=NAME,
    cls=CommandLine,
    help=(
        "A partitioned, replicated, ordered log on Spark and Delta Lake.\n\n"
        "Exit codes: 0 done, 1 a problem was found or work is left, 2 the call failed, 3 its"
        " outcome is unknown."
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
    produce,
    consume,
    get_offsets,
    delete_records,
    consumer_groups,
    dump_log,
    log_dirs,
    replica_verification,
    replicas,
    brokers,
    controller,
    serve,
    console,
    replicate,
    maintain,
    metadata,
    quorum.metadata_quorum,
    fsck,
    cost,
)
for verb in VERBS:
    app.command(cls=Verb)(verb)


def main() -> None:
    """Run the command line."""
    _fill_streams()
    app(prog_name=NAME)


def _fill_streams() -> None:
    """Have an output that is closed go nowhere.

    Else a file that is opened gets its number, and whatever writes to the output writes to that.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - to the end
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115 - to the end
