"""The command line as one application: its verbs, errors and exit codes."""

import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import Annotated, Any, Final

import pyarrow as pa
import typer
from typer.core import TyperGroup
from typer.main import get_command

from kafka_on_spark.base import __version__
from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    InvalidRequestError,
    KafkaOnSparkError,
)
from kafka_on_spark.base.text import visible
from kafka_on_spark.cli import process
from kafka_on_spark.cli.options import FAILED, INTERRUPTED, UNKNOWN, UNREAD
from kafka_on_spark.cli.output import say

NAME: Final = "kafka-on-spark"

MODULES: Final = {
    "clusters": "cluster brokers",
    "topics": "topics configs",
    "reassignment": "reassign-partitions leader-election",
    "produce": "produce",
    "consume": "consume",
    "perf": "perf",
    "groups": "consumer-groups",
    "logs": "get-offsets delete-records dump-log log-dirs replica-verification replicas fsck",
    "serve": "controller serve console replicate maintain",
    "metadata": "metadata metadata-quorum",
}
"""Verbs by their module, in the order of `--help`; the function of a verb is called as it is."""

PLACES: Final = {verb: module for module, verbs in MODULES.items() for verb in verbs.split()}


@cache
def verb_named(name: str) -> Any:
    """Return a verb, whose module is imported now: a call needs one, and all of them bring most of
    the project's modules."""
    module = import_module(f"{__package__}.{PLACES[name]}")
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command(name)(getattr(module, name.replace("-", "_")))
    return get_command(alone)


class CommandLine(TyperGroup):
    """The verbs; each error is one sentence."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{**given, "commands": dict.fromkeys(PLACES)})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return verb_named(cmd_name) if cmd_name in PLACES else None

    def main(self, args: Sequence[str] | None = None, *rest: Any, **named: Any) -> Any:
        given = sys.argv[1:] if args is None else list(args)
        try:
            code = super().main(given or ["--help"], *rest, **{**named, "standalone_mode": False})
        except KafkaOnSparkError as error:
            code = _failed(str(error))
            sys.exit(UNKNOWN if isinstance(error, CommitOutcomeUnknownError) else code)
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


def _drop_output() -> None:
    """Discard the rest of the buffer: Python would fail on it again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(sentence: str) -> int:
    """Say why a call failed, as a line of the log if that is JSON: its readers take no other."""
    if process.is_json():
        process.LOG.critical("%s", sentence)
        return FAILED
    sys.stderr.write(f"{NAME}: {visible(' '.join(sentence.split()))}\n")
    return FAILED


def _say_version(is_asked: bool) -> None:
    if is_asked:
        say(f"{NAME} {__version__}")
        raise typer.Exit


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


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", is_eager=True, callback=_say_version),
    ] = False,
) -> None:
    pass


def main() -> None:
    process.open_outputs()
    try:
        process.set_up()
    except InvalidRequestError as error:
        sys.exit(_failed(str(error)))
    sys.meta_path.insert(0, _WithoutPandas())
    pa.array([None])
    del sys.meta_path[0]
    app(prog_name=NAME)


class _WithoutPandas(MetaPathFinder):
    """Says of pandas that it is not installed. pyarrow asks once, when it makes its first array of
    a list, and would import it, which takes as long as all else of a call. `to_pandas` finds it."""

    def find_spec(self, fullname: str, *_: Any) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)
