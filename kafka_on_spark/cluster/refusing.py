"""A part of a cluster that refuses each method before it begins: for the past, and for dry runs."""

from collections.abc import Callable
from typing import NoReturn

from kafka_on_spark.errors import InvalidRequestError


class Refusing:
    """Has no method of its own, so that a method added later is refused as well.

    `refusal` returns the error for what can't be done ("create topic").
    """

    def __init__(self, refusal: Callable[[str], InvalidRequestError]) -> None:
        self._refusal = refusal

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        if name.startswith("_"):
            raise AttributeError(name)

        def refuse(*arguments: object, **named: object) -> NoReturn:
            raise self._refusal(name.replace("_", " "))

        return refuse
