"""The parameters of requests, read as strictly as options of the command line. Pure."""

from collections.abc import Mapping

from kafka_on_spark.errors import InvalidRequestError

Asked = Mapping[str, str]
"""The parameters of a request."""


def whole(asked: Asked, name: str) -> int | None:
    """Return a whole number from 0 on; None: it was not given.

    Raises:
        InvalidRequestError: It is no such number.
    """
    text = asked.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise InvalidRequestError(f"{name} can't be {text!r}: give a whole number")
    return int(text)


def moment(asked: Asked, name: str) -> int | None:
    """Return ms since 1970, before it if they are negative; None: it was not given.

    Raises:
        InvalidRequestError: It is no such number.
    """
    given = asked.get(name, "")
    found = whole({name: given.removeprefix("-")}, name)
    return -found if found is not None and given.startswith("-") else found


def bounded(asked: Asked, name: str, default: int, most: int) -> int:
    """Return a whole number up to `most`; `default`: it was not given.

    Raises:
        InvalidRequestError: It is no number.
    """
    found = whole(asked, name)
    return default if found is None else min(found, most)


def wholes(asked: Asked, name: str) -> list[int]:
    """Return whole numbers with commas between; none: it was not given.

    Raises:
        InvalidRequestError: One is no number.
    """
    parts = [part for part in asked.get(name, "").split(",") if part]
    return [each for part in parts if (each := whole({name: part}, name)) is not None]


def text(asked: Asked, name: str) -> str:
    """Return a text.

    Raises:
        InvalidRequestError: It was not given.
    """
    if not asked.get(name):
        raise InvalidRequestError(f"{name} is missing")
    return asked[name]
