"""Verbs made of actions (`topics --create`, `topics --list`), each on a cluster that a call opens.

An action is a function. Its first parameter is the session, and each other one an option that goes
with it; one without a default is needed. Kafka's tools have a flag for each action. A call gives
exactly one, and an option that does not go with it is refused rather than ignored.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.text import visible
from kafka_on_spark.cli.options import (
    AsOf,
    ClusterUrl,
    DryRun,
    Format,
    Limits,
    StorageOption,
    Yes,
    moment,
    pairs,
)
from kafka_on_spark.cli.output import (
    Columns,
    Output,
    Row,
    plural,
    say,
    write_json,
    write_json_rows,
    write_table,
)
from kafka_on_spark.cluster import Cluster
from kafka_on_spark.store.roots import StorageOptions

if TYPE_CHECKING:
    from kafka_on_spark.cli import dry_run as dry

CHANGING: Final = ("dry_run", "yes")
SHARED: Final[Mapping[str, Any]] = {"dry_run": DryRun, "yes": Yes, "as_of": AsOf}
"""Options that a session is opened with."""

Change = Callable[[Cluster], object]
"""A change, given the cluster or its dry run."""


class DryRunEnd(Exception):  # noqa: N818 - not an error: a dry run ends where a commit would follow
    """A change was decided."""


class Session:
    """One call of the command line.

    Attributes:
        url: The cluster's.
        cluster: The open cluster; of a dry run, the cluster that decides only.
        storage_options: Credentials of all roots, as they were given.
        options: The same, as roots take them.
        is_json: The answer is written as JSON.
        is_dry_run: Changes are decided, and not made.
        is_past: The cluster is opened as of a past moment, with --as-of.
    """

    def __init__(
        self,
        url: str,
        storage_option: Sequence[str] | None,
        output: Output = Output.TABLE,
        *,
        dry_run: bool = False,
        yes: bool = False,
        as_of: str | None = None,
    ) -> None:
        self.url = url
        self.storage_options = pairs(storage_option, "--storage-option")
        self.options = StorageOptions(self.storage_options)
        self.is_json = output is Output.JSON
        self.is_dry_run = dry_run
        self.is_past = as_of is not None
        self._is_yes = yes
        self._as_of = moment(as_of)

    @contextmanager
    def opened(self) -> Iterator[Self]:
        """Have the cluster open. What ends a dry run within shows the records."""
        with Cluster.open(
            self.url, as_of=self._as_of, storage_options=self.storage_options
        ) as self.cluster:
            if self.is_dry_run:
                self.cluster = self.dry_run
            try:
                yield self
            except DryRunEnd:
                self.show_decided()

    @cached_property
    def dry_run(self) -> "dry.DryRun":
        """Decides changes of the open cluster."""
        # In the function: most calls decide nothing without its commit.
        from kafka_on_spark.cli import dry_run as dry

        return dry.DryRun(self.cluster)

    def confirm(self, deed: str) -> None:
        """Ask before a deed that can't be undone ("deleting 2 topics"); a dry run asks nothing."""
        if self.is_dry_run or self._is_yes:
            return
        if not sys.stdin.isatty():
            raise InvalidRequestError(
                f"{deed} can't be undone, and there is no terminal to ask at: give --yes to do it"
            )
        question = f"{deed[0].upper()}{deed[1:]} can't be undone. Go on?"
        typer.confirm(visible(question), abort=True, err=True)

    def decide(self, changes: Iterable[Change]) -> None:
        """Decide each change on the cluster as it is, and make none; a refused change raises."""
        for change in changes:
            with suppress(DryRunEnd):
                change(self.dry_run)

    def do_all(self, changes: Sequence[Change]) -> None:
        """Make several changes. All are decided before the first is made: if one is refused, none
        is made. A dry run ends here."""
        self.decide(changes)
        if self.is_dry_run:
            raise DryRunEnd
        for change in changes:
            change(self.cluster)

    def write_rows(self, columns: Columns, rows: Iterable[Row]) -> None:
        """Write rows: all keys as JSON, or only `columns` as a table."""
        if self.is_json:
            write_json_rows(rows)
        else:
            write_table(columns, rows)

    def write_answer(self, answer: Mapping[str, Any]) -> None:
        """Write named values, as JSON or as a table of names and values."""
        rows = [{"name": name.replace("_", " "), "value": value} for name, value in answer.items()]
        self.show(answer, columns="name value", rows=rows)

    def show(
        self, answer: Any, *words: str, columns: Columns = "", rows: Iterable[Row] = ()
    ) -> None:
        """Write an answer as JSON; for people, a table of `rows` and lines of `words` instead."""
        if self.is_json:
            write_json(answer)
        else:
            write_table(columns, rows)
            say(*words)

    def conclude(self, answer: Mapping[str, Any], *words: str) -> None:
        """Say what was done, to people in lines of `words` if there are any; a dry run shows the
        records instead."""
        if self.is_dry_run:
            self.show_decided()
        elif self.is_json or words:
            self.show({"dry_run": False, **answer}, *words)
        else:
            self.write_answer(answer)

    def show_decided(self) -> None:
        """Show the records that this dry run has decided."""
        # In the function: most calls are no dry runs.
        from kafka_on_spark.cli.metadata import RECORD_COLUMNS, decided_rows

        rows = decided_rows(self.dry_run.decided, self.cluster.image)
        self.show(
            {"dry_run": True, "records": rows},
            f"A dry run: {plural(len(rows), 'record')} would be committed, and nothing was.",
            columns=RECORD_COLUMNS,
            rows=rows,
        )


class Action:
    """One thing that a verb does: `run`, whose name, without a `_` at its ends, is the action's.

    `shared` are the names of options that the session is opened with. `is_open`: else `run` itself
    creates or opens the cluster. `more`: further options, and what they declare. `one_of`:
    options of which exactly one must be given, their names with blanks between. `at_most_one_of`:
    likewise, of which two exclude each other.
    """

    def __init__(
        self,
        run: Callable[..., None],
        *shared: str,
        more: Mapping[str, Any] = MappingProxyType({}),
        one_of: Sequence[str] = (),
        at_most_one_of: Sequence[str] = (),
        is_open: bool = True,
    ) -> None:
        self.run = run
        self.shared = shared
        self.one_of = one_of
        self.at_most_one_of = at_most_one_of
        self.is_open = is_open
        self.key = run.__name__.strip("_")
        self.help = inspect.getdoc(run) or ""
        hints = get_type_hints(run, include_extras=True)
        _, *own = inspect.signature(run).parameters.values()
        own = [each for each in own if each.kind is not each.VAR_KEYWORD]
        self.defaults = {each.name: each.default for each in own if each.default is not each.empty}
        self.needed = [each.name for each in own if each.default is each.empty]
        self.options = {each.name: _option(each.name, hints[each.name]) for each in own}
        self.options |= {name: _option(name, hint) for name, hint in more.items()}
        self.options |= {name: _option(name, SHARED[name]) for name in shared}


def _option(name: str, hint: Any) -> inspect.Parameter:
    """Return an option as a parameter that may be left out. A hint that is a text is the help of a
    switch."""
    if isinstance(hint, str):
        hint = Annotated[bool, hint]
    if get_origin(hint) is not Annotated:
        hint = next(each for each in get_args(hint) if get_origin(each) is Annotated)  # of … | None
    kind, declared = hint.__origin__, hint.__metadata__
    info = declared[0]
    if isinstance(info, str):
        low, high = next((each for each in declared if isinstance(each, Limits)), (None, None))
        *given, words = [each for each in declared if isinstance(each, str)]
        flags = [each for each in given if each.startswith("-")] or [_flag(name)]
        metavar = next((each for each in given if not each.startswith("-")), None)
        info = typer.Option(*flags, metavar=metavar, help=words, min=low, max=high)
    if kind is bool:
        return _parameter(name, Annotated[bool, info], default=False)
    return _parameter(name, Annotated[kind | None, info], default=None)


def _parameter(name: str, hint: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _flag(name: str) -> str:
    return "--" + name.strip("_").replace("_", "-")


def verb(
    words: str, *actions: Action, by_word: bool = False, has_format: bool = True
) -> Callable[..., None]:
    """Return the function that typer makes a verb of; `words` are its help.

    An action that is alone has no flag. `by_word`: the action is the word after the verb, as in
    `metadata-quorum describe`. `has_format`: it takes --output.
    """
    named = {each.key.replace("_", "-") if by_word else _flag(each.key): each for each in actions}
    switches: list[inspect.Parameter] = []
    every = [option for each in named.values() for option in each.options.items()]
    options = dict(reversed(every))  # the first action that has an option declares it
    options = {name: options[name] for name, _ in every}
    if by_word:
        word = typer.Argument(help=f"What to do: {', '.join(named)}.")
        switches = [_option("action", Annotated[str, word])]
    elif len(actions) > 1:
        switches = [_option(each.key, each.help.partition("\n")[0]) for each in actions]
    else:
        shown = {name: value for name, value in actions[0].defaults.items() if _is_given(value)}
        options |= {name: options[name].replace(default=shown[name]) for name in shown}

    def run(context: typer.Context, **given: Any) -> None:
        asked = [
            name
            for name, each in named.items()
            if len(named) == 1 or given.get("action") == name or given.get(each.key)
        ]
        if len(asked) != 1:
            raise InvalidRequestError(
                f"{context.info_name} takes one action, and was given"
                f" {' and '.join(asked) or given.get('action') or 'none'}: choose one of"
                f" {', '.join(named)}"
            )
        wanted = {name: given[name] for name in options if _is_given(given[name])}
        _check(asked[0], wanted, named)
        action = named[asked[0]]
        shared = {name: wanted.pop(name) for name in action.shared if name in wanted}
        output = given.get("output", Output.TABLE)
        session = Session(given["cluster"], given["storage_option"], output, **shared)
        with session.opened() if action.is_open else nullcontext():
            action.run(session, **wanted)

    parameters = [
        _parameter("context", typer.Context),
        _parameter("cluster", ClusterUrl),
        *switches,
        *(option for name, option in options.items() if name not in SHARED),
        *(options[name] for name in SHARED if name in options),
        *([_parameter("output", Format, Output.TABLE)] if has_format else []),
        _option("storage_option", StorageOption),
    ]
    run.__doc__ = words
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def alone(
    *shared: str, has_format: bool = True, **declared: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a verb of one action, as Action takes it, whose docstring is its help."""

    def verb_of(run: Callable[..., None]) -> Callable[..., None]:
        action = Action(run, *shared, **declared)
        return verb(action.help, action, has_format=has_format)

    return verb_of


def _check(name: str, given: Mapping[str, Any], named: Mapping[str, Action]) -> None:
    action = named[name]
    for option in given:
        fitting = {n: each.options[option] for n, each in named.items() if option in each.options}
        if name not in fitting:
            raise InvalidRequestError(
                f"{_shown(*fitting.values())} does not go with {name}: leave it out, or use it with"
                f" {' or '.join(fitting)}"
            )
    for option in action.needed:
        if option not in given:
            parameter = action.options[option]
            [declared] = parameter.annotation.__metadata__
            words = f"{declared.help[0].lower()}{declared.help[1:].rstrip('.')}"
            raise InvalidRequestError(f"{_shown(parameter)} is missing: {words}")
    for names in (*action.one_of, *action.at_most_one_of):
        count = sum(option in given for option in names.split())
        if count > 1 or (count == 0 and names in action.one_of):
            flags = ", ".join(_shown(action.options[option]) for option in names.split())
            raise InvalidRequestError(f"give one of {flags}")


def _shown(option: inspect.Parameter, *_: inspect.Parameter) -> str:
    [declared] = option.annotation.__metadata__
    return str(declared.default) if isinstance(declared, OptionInfo) else option.name.upper()


def _is_given(value: Any) -> bool:
    return value is not None and value is not False and value not in ([], ())
