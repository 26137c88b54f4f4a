"""Has plain values of a call's options taken as they are, without typer's validation.

typer validates with pydantic, and imports it for each option, also for one that is not given: a
sixth of a short call's processor time. Text, words of a list, and numbers within their bounds need
none of it. All else is left to typer: what is refused, and values of other types.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, Self, get_args, get_origin

from kafka_on_spark.ids import whole_number

NOT_PLAIN: Final = object()


def with_plain_values(parameters: Sequence[Any]) -> list[Any]:
    """Return typer's parameters, each of which makes its validation only once a value is not
    plain. Those of a typer that validates in another way stay as they are."""
    for each in parameters:
        make = getattr(each, "get_runtime_param", None)
        if make is not None and not isinstance(make, _Validation):
            each.get_runtime_param = _Validation(make)
    return list(parameters)


class _Validation:
    """Stands for a parameter's validation, and for what makes that."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __call__(self) -> Self:
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value that the verb gets.

        Raises:
            typer.BadParameter: It is not allowed.
        """
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        told = param.type_descriptor.parameter_info
        plain = NOT_PLAIN
        if told.parser is None and not told.clamp:
            plain = _plain(value, param.type_descriptor.annotation, told)
        return self._make().coerce(value, param=param, ctx=ctx) if plain is NOT_PLAIN else plain


def _plain(value: Any, annotation: Any, told: Any) -> Any:
    if annotation is str:
        return value if isinstance(value, str) else NOT_PLAIN
    if annotation is int:
        return _plain_number(value, told.min, told.max)
    if get_origin(annotation) is list and get_args(annotation) == (str,):
        is_plain = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
        return list(value) if is_plain else NOT_PLAIN
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return next((each for each in annotation if value in (each, each.value)), NOT_PLAIN)
    return NOT_PLAIN


def _plain_number(value: Any, least: int | None, most: int | None) -> Any:
    try:
        number = whole_number(value) if isinstance(value, str) else value
    except ValueError:
        return NOT_PLAIN
    is_allowed = (least is None or number >= least) and (most is None or number <= most)
    return number if is_allowed else NOT_PLAIN
