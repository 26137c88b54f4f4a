"""Verbs made of actions (`topics --create`, `topics --list`), each on a cluster that a call opens.

An action is a function. Its first parameter is the session, and each other one an option that goes
with it; one without a default is needed. Kafka's tools have a flag for each action. A call gives
exactly one, and an option that does not go with it is refused rather than ignored.
"""

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

import typer
from typer.models import OptionInfo

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.text import visible
from kafka_on_spark.cli.options import CLUSTER_VARIABLE, OPTIONS, moment, pairs
from kafka_on_spark.cli.output import (
    Columns,
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
SHARED: Final = (*CHANGING, "as_of")
"""Options that a session is opened with."""

Change = Callable[[Cluster], object]
"""A change, given the cluster or its dry run."""


class DryRunEnd(Exception):  # noqa: N818 - not an error: a dry run ends where a commit would follow
    """A change was decided."""


class Session:
    """One call of the command line; in a dry run its `cluster` is one that decides only."""

    def __init__(
        self,
        url: str | None,
        storage_option: Sequence[str] | None,
        output: str | None,
        *,
        dry_run: bool = False,
        yes: bool = False,
        as_of: str | None = None,
    ) -> None:
        self.url = url or os.environ.get(CLUSTER_VARIABLE, "")
        if not self.url:
            raise InvalidRequestError(
                f"--cluster is missing: name the cluster's metadata root, or set {CLUSTER_VARIABLE}"
            )
        if output not in (None, "table", "json"):
            raise InvalidRequestError(f"--output can't be {output!r}: give table or json")
        self.storage_options = pairs(storage_option, "--storage-option")
        self.options = StorageOptions(self.storage_options)
        self.is_json = output == "json"
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
                self._show_decided()

    @cached_property
    def dry_run(self) -> "dry.DryRun":
        """Decides changes of the open cluster."""
        # In the function: most calls are not dry runs.
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

    def write_rows(self, rows: Iterable[Row], columns: Columns = "") -> None:
        """Write rows as JSON, or as a table, which may have fewer `columns` than rows have keys."""
        if self.is_json:
            write_json_rows(rows)
        else:
            write_table(columns, rows)

    def write_answer(self, answer: Mapping[str, Any]) -> None:
        """Write named values, as JSON or as a table of names and values."""
        rows = [{"name": name.replace("_", " "), "value": value} for name, value in answer.items()]
        self.show(answer, rows=rows)

    def show(
        self, answer: Any, *words: str, rows: Iterable[Row] = (), columns: Columns = ""
    ) -> None:
        """Write an answer as JSON; for people, a table of `rows` and lines of `words` instead."""
        if self.is_json:
            write_json(answer)
        else:
            write_table(columns, rows)
            say(*words)

    def conclude(self, answer: Mapping[str, Any], *words: str) -> None:
        """Say what was done, to people in lines of `words` if there are any."""
        if self.is_json or words:
            self.show({"dry_run": self.is_dry_run, **answer}, *words)
        else:
            self.write_answer(answer)

    def _show_decided(self) -> None:
        from kafka_on_spark.cli.metadata import RECORD_COLUMNS, record_rows

        rows = record_rows(self.dry_run.decided, self.cluster.image)
        self.show(
            {"dry_run": True, "records": rows},
            f"A dry run: {plural(len(rows), 'record')} would be committed, and nothing was.",
            rows=rows,
            columns=RECORD_COLUMNS,
        )


class Action:
    """One thing that a verb does: `run`, whose name, without a `_` at its ends, is the action's.

    Its parameters are options; those without a default are needed. `shared` are the names of
    options that the session is opened with, `more` of those that it takes by `**`. `is_open`: the
    session opens the cluster; if false, `run` creates or opens it. `one_of`: exactly one of these
    options must be given; their names have blanks between. `at_most_one_of`: no two of these may.
    """

    def __init__(
        self,
        run: Callable[..., None],
        *shared: str,
        more: str = "",
        one_of: Sequence[str] = (),
        at_most_one_of: Sequence[str] = (),
        is_open: bool = True,
    ) -> None:
        self.run, self.shared, self.is_open = run, shared, is_open
        self.one_of, self.at_most_one_of = one_of, at_most_one_of
        self.key = run.__name__.strip("_")
        self.help = inspect.getdoc(run) or ""
        own = list(inspect.signature(run).parameters.values())[1:]
        self.own = {each.name: each for each in own if each.kind is not each.VAR_KEYWORD}
        self.needed = [name for name, each in self.own.items() if each.default is each.empty]
        self.names = [*self.own, *more.split(), *shared]


def _declared(text: str) -> dict[str, str]:
    """Return the declarations of options by their names, each of lines of its own.

    An option stands there as --help shows it: flags, or none for an argument; what stands for its
    value, without which it is a switch; and what it says of itself. A value may have limits, as in
    INTEGER>=0, and "..." at its end if it may be given more than once.
    """
    entries = re.split(r"^ {4}(?=\S)", text, flags=re.MULTILINE)[1:]
    names = [re.findall(r"\w[\w-]*", each)[0] for each in entries]
    return {name.lower().replace("-", "_"): each for name, each in zip(names, entries, strict=True)}


_KINDS: Final[Mapping[str, Any]] = {"INTEGER": int, "NUMBER": float, "TEXT": str}
"""Values that need no better word than that of their type."""


def _option(name: str, text: str) -> inspect.Parameter:
    head, words = re.split(r"  |\n", text, maxsplit=1)
    *others, last = [each.rstrip(",") for each in head.split()]
    flags, value = ([*others, last], "") if last.startswith("-") else (others, last)
    word, *limits = re.split("[<>]=", value.removesuffix("..."))
    low, high = (*map(int, limits), None, None)[:2]
    declare: Any = typer.Option if flags else typer.Argument
    shown = None if word in _KINDS else (word if flags else value)
    info = declare(*flags, metavar=shown or None, help=" ".join(words.split()), min=low, max=high)
    kind = _KINDS.get(word, int if limits else str)
    if value.endswith("..."):
        kind = GenericAlias(list, (kind,))
    hint: Any = Annotated[kind | None, info] if value else Annotated[bool, info]
    default = None if value else False
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def verb(
    text: str, *actions: Action, by_word: bool = False, has_format: bool = True
) -> Callable[..., None]:
    """Return the function that typer makes a verb of. The `text` has its help and, after
    "Options:", the options of its actions that no other verb has.

    An action that is alone has no flag. `by_word`: the action is the word after the verb, as in
    `metadata-quorum describe`. `has_format`: it takes --output.
    """
    words, _, declared = inspect.cleandoc(text).partition("\n\nOptions:\n")
    texts = _declared(OPTIONS) | _declared(declared)
    named = {("" if by_word else "--") + each.key.replace("_", "-"): each for each in actions}
    options = _options_of(actions, texts)
    switches: list[inspect.Parameter] = []
    if by_word:
        switches = [_option("action", f"action  What to do: {', '.join(named)}.")]
    elif len(actions) > 1:
        heads = {name: each.help.partition("\n")[0] for name, each in named.items()}
        switches = [_option(named[name].key, f"{name}  {head}") for name, head in heads.items()]

    def run(context: typer.Context, **given: Any) -> None:
        name = _asked(str(context.info_name), given, named)
        action = named[name]
        wanted = {option: given[option] for option in options if _is_given(given[option])}
        _check(name, wanted, named, options)
        shared = {option: wanted.pop(option) for option in action.shared if option in wanted}
        session = Session(given["cluster"], given["storage_option"], given.get("output"), **shared)
        with session.opened() if action.is_open else nullcontext():
            action.run(session, **wanted)

    parameters = [
        inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
        _option("cluster", texts["cluster"]),
        *switches,
        *(option for name, option in options.items() if name not in SHARED),
        *(options[name] for name in SHARED if name in options),
        *([_option("output", texts["output"])] if has_format else []),
        _option("storage_option", texts["storage_option"]),
    ]
    run.__doc__ = words
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _options_of(
    actions: Sequence[Action], texts: Mapping[str, str]
) -> dict[str, inspect.Parameter]:
    """Return the options of actions. The defaults of an action that is alone are shown."""
    names = dict.fromkeys(name for each in actions for name in each.names)
    options = {}
    for name in names:
        own = actions[0].own.get(name)
        options[name] = _option(name, texts[name.strip("_")])
        if own is not None and len(actions) == 1 and own.default not in (own.empty, None):
            options[name] = options[name].replace(default=own.default)
    return options


def _asked(verb_name: str, given: Mapping[str, Any], named: Mapping[str, Action]) -> str:
    asked = [
        name
        for name, each in named.items()
        if len(named) == 1 or given.get("action") == name or given.get(each.key)
    ]
    if len(asked) == 1:
        return asked[0]
    raise InvalidRequestError(
        f"{verb_name} takes one action, and was given"
        f" {' and '.join(asked) or given.get('action') or 'none'}: choose one of"
        f" {', '.join(named)}"
    )


def alone(
    text: str, *shared: str, has_format: bool = True, **limits: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a verb, of such a text, of one action, as Action takes it."""
    return lambda run: verb(text, Action(run, *shared, **limits), has_format=has_format)


def _check(
    name: str,
    given: Mapping[str, Any],
    named: Mapping[str, Action],
    options: Mapping[str, inspect.Parameter],
) -> None:
    action = named[name]
    for option in given:
        fitting = [each for each in named if option in named[each].names]
        if name not in fitting:
            raise InvalidRequestError(
                f"{_shown(options[option])} does not go with {name}: leave it out, or use it with"
                f" {' or '.join(fitting)}"
            )
    for option in action.needed:
        if option not in given:
            [declared] = options[option].annotation.__metadata__
            words = f"{declared.help[0].lower()}{declared.help[1:].rstrip('.')}"
            raise InvalidRequestError(f"{_shown(options[option])} is missing: {words}")
    for group in (*action.one_of, *action.at_most_one_of):
        count = sum(option in given for option in group.split())
        if count > 1 or (count == 0 and group in action.one_of):
            flags = ", ".join(_shown(options[option]) for option in group.split())
            raise InvalidRequestError(f"give one of {flags}")


def _shown(option: inspect.Parameter) -> str:
    [declared] = option.annotation.__metadata__
    return str(declared.default) if isinstance(declared, OptionInfo) else option.name.upper()


def _is_given(value: Any) -> bool:
    return value is not None and value is not False and value not in ([], ())
