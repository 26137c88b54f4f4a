"""Tables of HTML, as notebooks show values: escaped, with a caption, and readable without colours.

Text that others wrote is never markup: it passes through `visible` and is escaped. The module is on
a low floor, since descriptions of every floor have such a display.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import islice
from typing import Final

from kafka_on_spark.visible import visible

ROWS_MAX: Final = 200
"""So many rows are shown: a notebook keeps every display in its file."""

_NUMBER: Final = ' style="text-align:right"'
_TEXT: Final = ' style="text-align:left"'


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; of more rows than ROWS_MAX it has the first, and says how many more."""
    remaining = iter(rows)
    shown = [list(row) for row in islice(remaining, ROWS_MAX)]
    left_out = sum(1 for _ in remaining)
    are_numbers = [
        bool(shown) and all(map(_is_number, cells)) for cells in zip(*shown, strict=True)
    ]
    aligned = [_NUMBER if each else _TEXT for each in are_numbers] or [_TEXT] * len(columns)
    head = "".join(
        f'<th scope="col"{style}>{_escaped(name)}</th>'
        for name, style in zip(columns, aligned, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(_cell(each, style) for each, style in zip(row, aligned, strict=True))}</tr>"
        for row in shown
    )
    more = f"<p>… and {left_out:,} more</p>" if left_out else ""
    return (
        f"<table><caption{_TEXT}>{_escaped(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{more}"
    )


def html_figures(caption: str, figures: Mapping[str, object]) -> str:
    """Return a table of named figures, one a row."""
    rows = "".join(
        f'<tr><th scope="row"{_TEXT}>{_escaped(name)}</th>{_cell(value, _style([value]))}</tr>'
        for name, value in figures.items()
    )
    caption = _escaped(caption)
    return f"<table><caption{_TEXT}>{caption}</caption><tbody>{rows}</tbody></table>"


def html_list(caption: str, sentences: Iterable[str]) -> str:
    """Return sentences as a list under a caption; nothing if there are none."""
    remaining = iter(sentences)
    shown = [f"<li>{_escaped(each)}</li>" for each in islice(remaining, ROWS_MAX)]
    left_out = sum(1 for _ in remaining)
    if left_out:
        shown.append(f"<li>… and {left_out:,} more</li>")
    return f"<p>{_escaped(caption)}</p><ul>{''.join(shown)}</ul>" if shown else ""


def html_text(lines: str) -> str:
    """Return text of several lines as it is."""
    return f"<pre>{escape(visible(lines, keep=chr(10)))}</pre>"


def _style(values: Sequence[object]) -> str:
    return _NUMBER if all(map(_is_number, values)) else _TEXT


def _cell(value: object, style: str) -> str:
    return f"<td{style}>{_escaped(_text_of(value))}</td>"


def _text_of(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, list | tuple | set | frozenset):
        return " ".join(map(_text_of, value)) or "none"
    return str(value)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _escaped(text: str) -> str:
    return escape(visible(text))
