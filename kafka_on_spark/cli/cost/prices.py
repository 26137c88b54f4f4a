"""Reads a price list, which the user writes: TOML, all prices of requests and bytes."""

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ports.ledger import RequestKind
from kafka_on_spark.service.describe.cost import Prices

BYTES: Final = ("in", "out")
CPU: Final = ("hour",)
TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "requests": tuple(each.value for each in RequestKind),
    "bytes": BYTES,
    "cpu": CPU,
}
OPTIONAL: Final = ("cpu",)
"""A store bills no processor."""

AMOUNT_MAX: Final = 1e12
"""In any currency: more is a slip, and what it is multiplied with must stay a number."""


def read_prices(path: Path) -> Prices:
    """Return the price list of a file.

    Raises:
        InvalidRequestError: It can't be read, is no TOML, lacks a price, has one that is no amount,
            or a name that none has.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # a TOMLDecodeError is a ValueError
        raise InvalidRequestError(f"--prices {str(path)!r} can't be read: {error}") from None
    currency = given.pop("currency", None)
    if not isinstance(currency, str) or not currency.strip():
        raise _wrong(path, 'it has no currency: begin it with a line such as currency = "USD"')
    _check_names(path, "it", given, tuple(TABLES))
    tables = {name: _table(path, given, name) for name in TABLES}
    requests = tables["requests"]
    return Prices(
        currency=currency.strip(),
        requests={kind: requests[kind.value] for kind in RequestKind},
        bytes_in=tables["bytes"]["in"],
        bytes_out=tables["bytes"]["out"],
        cpu_hour=tables["cpu"].get("hour", 0.0),
    )


def _table(path: Path, given: Mapping[str, Any], name: str) -> dict[str, float]:
    if name not in given and name in OPTIONAL:
        return {}
    table = given.get(name)
    if not isinstance(table, dict):
        raise _wrong(path, f"it has no table [{name}]")
    _check_names(path, f"[{name}]", table, TABLES[name])
    for each in TABLES[name]:
        if each not in table:
            raise _wrong(path, f"[{name}] has no price of {each}: give 0 for what is free")
    return {each: _amount(path, f"[{name}] {each}", table[each]) for each in TABLES[name]}


def _check_names(path: Path, where: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for each in given:
        if each not in known:
            near = get_close_matches(each, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise _wrong(path, f"{where} has {each!r}, which is no price: {hint}")


def _amount(path: Path, name: str, given: Any) -> float:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not 0 <= given <= AMOUNT_MAX:
        raise _wrong(path, f"{name} can't be {given!r:.40}: give an amount from 0 on")
    return float(given)


def _wrong(path: Path, sentence: str) -> InvalidRequestError:
    return InvalidRequestError(f"--prices {str(path)!r}: {sentence}")
