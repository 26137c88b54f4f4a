"""What the benchmark makes of its figures: ratios, budgets, JSON and the table."""

import json

import pytest

from jobs.benchmark import parse
from jobs.benchmarks.report import (
    Budget,
    Row,
    as_json,
    as_markdown,
    as_text,
    is_met,
    percentile,
    row,
    significant,
)

MACHINE = {"cpu": "Z80", "cores": 1}
RATIO_MOST = Budget(bound=1.25, on="ratio")
RATIO_LEAST = Budget(bound=0.8, on="ratio", is_most=False)
VALUE_MOST = Budget(bound=25, on="value")

# fmt: off
CASES = [
    pytest.param(RATIO_MOST,  99.0, 1.25, True,  id="at the bound is within it"),
    pytest.param(RATIO_MOST,  99.0, 1.26, False, id="above a bound on the ratio"),
    pytest.param(RATIO_LEAST, 99.0, 0.8,  True,  id="at a lower bound"),
    pytest.param(RATIO_LEAST, 99.0, 0.79, False, id="below a lower bound"),
    pytest.param(VALUE_MOST,  25.0, None, True,  id="a bound on the value needs no peer"),
    pytest.param(VALUE_MOST,  25.1, 0.1,  False, id="a bound on the value looks at no ratio"),
]
# fmt: on


@pytest.mark.parametrize("budget,value,ratio,expected", CASES)
def test_budget_is_met_within_its_bound(budget, value, ratio, expected):
    assert is_met(budget, value, ratio) is expected


def test_budget_on_a_ratio_without_a_peer_is_a_mistake():
    with pytest.raises(AssertionError, match="needs a peer"):
        is_met(RATIO_MOST, 1.0, None)


def test_row_is_of_medians_and_its_ratio_too():
    made = row("append", [30.0, 9.0, 10.0], "s", peer="parquet", peer_values=[7, 8, 50])

    assert (made.value, made.peer_value, made.ratio) == (10, 8, 1.25)
    assert (made.budget, made.met) == (None, None)


def test_budget_is_judged_by_the_measured_ratio_and_not_by_the_rounded_one():
    made = row("append", [1.2504], "s", peer="parquet", peer_values=[1.0], budget=RATIO_MOST)

    assert (made.ratio, made.budget, made.met) == (1.25, "≤ 1.25 ×", False)


def test_budget_says_its_unit():
    assert VALUE_MOST.text("ms") == "≤ 25 ms"
    assert RATIO_LEAST.text("MB/s") == "≥ 0.8 ×"


def test_json_has_exactly_the_promised_names():
    rows = [row("small", [20.0], "ms", budget=VALUE_MOST)]

    found = json.loads(json.dumps(as_json(MACHINE, rows)))

    assert found == {
        "machine": MACHINE,
        "rows": [
            {
                "name": "small",
                "value": 20.0,
                "unit": "ms",
                "peer": None,
                "peer_value": None,
                "ratio": None,
                "budget": "≤ 25 ms",
                "met": True,
                "recorded": None,
            }
        ],
    }


def test_table_is_aligned_and_says_what_is_missed():
    rows = [
        Row(name="a", value=1.0, unit="s", budget="≤ 2 s", met=True),
        Row(name="longer", value=3.0, unit="s", peer="p", peer_value=2.0, ratio=1.5, met=False),
    ]

    said, _, *table = as_text(MACHINE, rows).splitlines()

    assert said == "cpu Z80, cores 1"
    assert [line[6:9] for line in table] == ["  v", "  -", "  1", "  3"]
    assert table[2].endswith("yes")
    assert table[3].endswith("NO")


def test_markdown_has_a_cell_for_each_column_and_what_kafka_took():
    made = row("small | append", [20.0], "ms", budget=VALUE_MOST, recorded="92 ms")

    said, _, head, line, cells = as_markdown(MACHINE, [made]).splitlines()

    assert said == "cpu Z80, cores 1"
    assert head.count("|") == line.count("|") == cells.count("|")
    assert cells == "| small / append | 20 ms |  |  | ≤ 25 ms | yes | 92 ms |"


@pytest.mark.parametrize("share,expected", [(0.0, 1), (0.5, 2), (0.75, 3), (0.99, 4), (1.0, 4)])
def test_percentile_is_a_measured_value(share, expected):
    assert percentile([4, 2, 1, 3], share) == expected


@pytest.mark.parametrize("number,expected", [(1234.5, 1230), (0.012345, 0.0123), (0, 0)])
def test_three_digits_are_said(number, expected):
    assert significant(number) == expected


def test_arguments_have_the_sizes_of_the_budgets_by_default():
    chosen = parse([])

    assert (chosen.only, chosen.records, chosen.runs, chosen.json) == (None, 5_000_000, 3, False)
