"""What the benchmark makes of its figures: ratios, budgets, JSON and the table."""

import pytest

from jobs.benchmarks.report import (
    Budget,
    is_met,
    percentile,
    row,
)

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


@pytest.mark.parametrize("share,expected", [(0.0, 1), (0.5, 2), (0.75, 3), (0.99, 4), (1.0, 4)])
def test_percentile_is_a_measured_value(share, expected):
    assert percentile([4, 2, 1, 3], share) == expected
