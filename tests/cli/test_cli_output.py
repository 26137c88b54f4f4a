"""How rows are written: as lines, and as JSON."""

import io
import json

import pytest

from kafka_on_spark.cli.output import NOTHING, text_of, write_json_rows, write_table

COLUMNS = "name size_in_bytes why empty"
ROWS = [
    {"name": "short", "size_in_bytes": 7, "why": "because", "empty": None, "unshown": [1, 2]},
    {"name": "[red]", "size_in_bytes": 1234567, "why": "word " * 30 + "end", "empty": []},
]


def written(monkeypatch, stream, *, rows=ROWS, is_json=False):
    monkeypatch.setattr("sys.stdout", stream)
    if is_json:
        write_json_rows(rows)
    else:
        write_table(COLUMNS, rows)
    return stream.getvalue()


def test_a_row_is_a_line_with_all_columns(monkeypatch):
    titles, first, second = written(monkeypatch, io.StringIO()).splitlines()

    assert titles.split("  ")[0] == "NAME"
    assert first.split() == ["short", "7", "because", NOTHING]
    assert second.endswith(f"end  {NOTHING}")
    assert titles.index("WHY") == first.index("because") == second.index("word")


def test_json_says_what_the_columns_leave_out(monkeypatch):
    text = written(monkeypatch, io.StringIO(), is_json=True)

    assert json.loads(text) == ROWS
    assert written(monkeypatch, io.StringIO(), rows=[], is_json=True) == "[]\n"


@pytest.mark.parametrize(
    "value, text",
    [(None, "-"), ("", "-"), ([], "-"), (0, "0"), (False, "no"), (True, "yes"),
     ([3, 1], "3,1"), ([None], "-"), ("two\nlines", "two lines")],
)  # fmt: skip
def test_cells(value, text):
    assert text_of(value) == text
