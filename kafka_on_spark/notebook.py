"""How a notebook shows what describes a cluster: the fields, as pandas' tables.

The module is on a low floor, since descriptions of every floor are shown. Only a notebook imports
pandas here.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from html import escape
from typing import Any, Final

from kafka_on_spark.visible import visible

ROWS_MAX: Final = 200
"""So many rows of a table are shown: a notebook keeps every display in its file."""


class Shown:
    """A dataclass that a notebook shows as tables."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        mine: Any = self
        values = {each.name: getattr(self, each.name) for each in fields(mine)}
        return shown(type(self).__name__, values)


def shown(title: str, values: Mapping[str, Any]) -> str:
    """Return values as HTML: a table of them, and one for each sequence of sentences or rows (which
    are dataclasses or mappings)."""
    import pandas as pd

    single, tables = {}, []
    for name, value in values.items():
        first = value[0] if isinstance(value, tuple | list) and value else None
        if isinstance(first, str):
            tables.append(_table(name, len(value), pd.DataFrame({"": value[:ROWS_MAX]})))
        elif isinstance(first, Mapping) or is_dataclass(first):
            rows = [_plain(each) for each in value[:ROWS_MAX]]
            tables.append(_table(name, len(value), pd.json_normalize(rows)))
        else:
            single[name] = value
    figures = pd.DataFrame({"value": single.values()}, single)
    return _table(title, len(single), figures) + "".join(tables)


def _plain(row: Any) -> Mapping[str, Any]:
    return row if isinstance(row, Mapping) else asdict(row)


def _table(title: str, count: int, frame: Any) -> str:
    more = f" (the first {len(frame)} of {count:,})" if count > len(frame) else ""
    is_numbered = frame.index.dtype.kind == "i"
    table = frame.astype(object).map(_cell).to_html(index=not is_numbered)
    return f"<p>{escape(visible(title))}{more}</p>{table}"


def _cell(value: object) -> object:
    """Return text that others wrote with its control characters escaped; pandas escapes markup."""
    return visible(str(value.value if isinstance(value, Enum) else value))
