"""Verbs made of actions: `topics --create`, `topics --list`. An option is declared once.

An action is a function. Its first parameter is the session, and each other one an option that goes
with it; one without a default is needed. Kafka's tools have a flag for each action. A call gives
exactly one, and an option that does not go with it is refused rather than ignored.
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from copy import copy
from types import MappingProxyType
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.cli.options import AsOf, ClusterUrl, DryRun, Format, StorageOption, Yes
from kafka_on_spark.cli.output import Output
from kafka_on_spark.cli.session import Session

CHANGING: Final = ("dry_run", "yes")
SHARED: Final[Mapping[str, Any]] = {"dry_run": DryRun, "yes": Yes, "as_of": AsOf}
"""Options that a session is opened with."""


class Action:
    """One thing that a verb does: `run`, whose name, without a `_` at its ends, is the action's.

    `shared` are the names of options that the session is opened with. `is_open`: else `run` itself
    creates or opens the cluster. `more`: further options, and what they declare.
    """

    def __init__(
        self,
        run: Callable[..., None],
        *shared: str,
        more: Mapping[str, Any] = MappingProxyType({}),
        is_open: bool = True,
    ) -> None:
        self.run = run
        self.shared = shared
        self.is_open = is_open
        self.key = run.__name__.strip("_")
        self.help = inspect.getdoc(run) or ""
        hints = get_type_hints(run, include_extras=True)
        _, *own = inspect.signature(run).parameters.values()
        own = [each for each in own if each.kind is not each.VAR_KEYWORD]
        self.needed = [each.name for each in own if each.default is each.empty]
        self.options = {each.name: _option(each.name, hints[each.name]) for each in own}
        self.options |= {name: _option(name, hint) for name, hint in more.items()}
        self.options |= {name: _option(name, SHARED[name]) for name in shared}


def _option(name: str, hint: Any) -> inspect.Parameter:
    """Return an option as a parameter that may be left out; its name is its flag, if it declares
    none. A hint that is a text is the help of a switch."""
    if isinstance(hint, str):
        hint = Annotated[bool, typer.Option(help=hint)]
    if get_origin(hint) is not Annotated:
        hint = next(each for each in get_args(hint) if get_origin(each) is Annotated)  # of … | None
    kind, [info] = hint.__origin__, hint.__metadata__
    if info.default is ... and isinstance(info, OptionInfo):
        info = copy(info)
        info.default = _flag(name)
    if kind is bool:
        return _parameter(name, Annotated[bool, info], default=False)
    return _parameter(name, Annotated[kind | None, info], default=None)


def _parameter(name: str, hint: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _flag(name: str) -> str:
    return "--" + name.strip("_").replace("_", "-")


def verb(words: str, *actions: Action, by_word: bool = False) -> Callable[..., None]:
    """Return the function that typer makes a verb of; `words` are its help.

    An action that is alone has no flag. `by_word`: the action is the word after the verb, as in
    `metadata-quorum describe`.
    """
    named = {each.key.replace("_", "-") if by_word else _flag(each.key): each for each in actions}
    switches: list[inspect.Parameter] = []
    if by_word:
        word = typer.Argument(help=f"What to do: {', '.join(named)}.")
        switches = [_option("action", Annotated[str, word])]
    elif len(actions) > 1:
        switches = [_option(each.key, each.help.partition("\n")[0]) for each in actions]
    every = [option for each in named.values() for option in each.options.items()]
    options = dict(reversed(every))  # the first action that has an option declares it
    options = {name: options[name] for name, _ in every}

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
        session = Session(given["cluster"], given["storage_option"], given["output"], **shared)
        with session.opened() if action.is_open else nullcontext():
            action.run(session, **wanted)

    parameters = [
        _parameter("context", typer.Context),
        _parameter("cluster", ClusterUrl),
        *switches,
        *(option for name, option in options.items() if name not in SHARED),
        *(options[name] for name in SHARED if name in options),
        _parameter("output", Format, Output.TABLE),
        _parameter("storage_option", StorageOption, None),
    ]
    run.__doc__ = words
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def alone(
    *shared: str, is_open: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a verb of one action, whose docstring is its help."""

    def verb_of(run: Callable[..., None]) -> Callable[..., None]:
        action = Action(run, *shared, is_open=is_open)
        return verb(action.help, action)

    return verb_of


def _check(name: str, given: Mapping[str, Any], named: Mapping[str, Action]) -> None:
    """Check that the options of a call go with its action, and that none is missing.

    Raises:
        InvalidRequestError: One does not, or is.
    """
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


def _shown(option: inspect.Parameter, *_: inspect.Parameter) -> str:
    [declared] = option.annotation.__metadata__
    return str(declared.default) if isinstance(declared, OptionInfo) else option.name.upper()


def _is_given(value: Any) -> bool:
    return value is not None and value is not False and value not in ([], ())
