"""Functions of the product switched off, one at a time: what no vector notices is not what they ask."""

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.metadata.image import ControllerResult


def production_functions(package: str) -> set[str]:
    """Return the places ("module:name") of the product's functions that modules of `package` use."""
    return {
        f"{each.__module__.removeprefix('kafka_on_spark.')}:{each.__qualname__}"
        for name, module in list(sys.modules.items())
        if name.startswith(package)
        for each in vars(module).values()
        if inspect.isfunction(each) and each.__module__.startswith("kafka_on_spark.")
    }


def switched_off(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` without its effect: no records, nothing found, no refusal, the opposite."""

    @functools.wraps(function)
    def off(*arguments: Any, **named: Any) -> Any:
        try:
            answer = function(*arguments, **named)
        except KafkaOnSparkError:
            return None
        return _nothing_of(answer)

    return off


def _nothing_of(answer: Any) -> Any:
    if isinstance(answer, ControllerResult):
        response = [] if isinstance(answer.response, list) else answer.response
        return ControllerResult([], response)
    if isinstance(answer, bool):
        return not answer
    if isinstance(answer, int):
        return answer + 1
    if type(answer) in (list, tuple, set, frozenset, dict):
        return type(answer)()
    return None


@contextmanager
def nonsense_in(place: str) -> Iterator[None]:
    """Have what stands at `place` of the product, a function, method or property, answer nonsense
    to all that ask it. `place`: "module:name" below the package."""
    module_name, _, name = place.partition(":")
    owner = importlib.import_module(f"kafka_on_spark.{module_name}")
    *outer, name = name.split(".")
    for each in outer:
        owner = getattr(owner, each)
    found = inspect.getattr_static(owner, name)
    if not outer:
        with replaced(found, switched_off(found)):
            yield
        return
    is_property = isinstance(found, property)
    off = property(switched_off(found.fget)) if is_property else switched_off(found)
    setattr(owner, name, off)
    try:
        yield
    finally:
        setattr(owner, name, found)


@contextmanager
def replaced(function: Callable[..., Any], instead: Callable[..., Any]) -> Iterator[None]:
    """Have `instead` stand wherever a module of the product or of the tests names `function`."""
    places: list[tuple[Mapping[str, Any], str]] = [
        (vars(module), name)
        for module_name, module in list(sys.modules.items())
        if module_name.startswith(("kafka_on_spark", "tests."))
        for name, each in list(vars(module).items())
        if each is function
    ]
    for names, name in places:
        names[name] = instead  # type: ignore[index]
    try:
        yield
    finally:
        for names, name in places:
            names[name] = function  # type: ignore[index]
