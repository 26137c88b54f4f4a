"""`cost`: ledgers and calls in money, by a price list."""

import json
import math

import pytest

from kafka_on_spark.cli.cost.ledger_file import ledger_text, read_ledger
from kafka_on_spark.cli.cost.prices import read_prices
from kafka_on_spark.cli.serve.text_file import TextFile
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ports.ledger import LedgerReport, LedgerRow, RequestKind
from tests.cli.conftest import ROOT

EXAMPLE = ROOT / "docs" / "service" / "prices.toml"
REPORT = LedgerReport(
    rows=(
        LedgerRow(
            operation="append",
            topic="orders",
            requests={RequestKind.PUT: 2000, RequestKind.GET: 500},
            bytes_in=3_000_000,
        ),
        LedgerRow(operation="probe", topic="", requests={RequestKind.PUT: 10}, cpu_ms=36.5),
        LedgerRow(operation="read", topic="orders", requests={RequestKind.GET: 5}, bytes_out=7),
    ),
    began_at_ms=1_000_000,
    ended_at_ms=1_060_000,
    process_cpu_ms=120.0,
    not_counted=("What executors write.",),
)


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "ledger.json"
    path.write_text(ledger_text(REPORT))
    return path


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(
        'currency = "EUR"\n'
        "[requests]\nPUT = 0.5\nCOPY = 0.5\nPOST = 0.5\nLIST = 0.5\nGET = 0.04\nHEAD = 0.04\nDELETE = 0\n"
        "[bytes]\nin = 0\nout = 90.0\n"
    )
    return path


def test_a_ledger_is_read_as_it_was_written(ledger):
    assert read_ledger(ledger) == REPORT


def test_the_example_has_every_price_and_says_that_it_is_one():
    prices = read_prices(EXAMPLE)

    assert prices.currency == "USD"
    assert prices.requests.keys() == set(RequestKind)
    assert prices.cpu_hour > 0
    assert "REPLACE" in EXAMPLE.read_text()


def test_each_operation_has_its_cost(call, ledger, prices):
    answer = call.json("cost", "--prices", prices, "--ledger", ledger)

    assert (answer["currency"], answer["per"], answer["measured_ms"]) == ("EUR", "run", 60_000)
    rows = {row["operation"]: row for row in answer["rows"]}
    assert list(rows) == ["append", "probe", "read"]  # the dearest first
    assert rows["append"]["cost_of_requests"] == pytest.approx(1.02)
    assert rows["append"]["requests"] == {"PUT": 2000, "GET": 500}
    assert rows["read"]["cost_of_bytes"] == pytest.approx(6.3e-7)
    assert answer["total"]["cost"] == pytest.approx(sum(row["cost"] for row in rows.values()))
    assert answer["not_counted"] == ["What executors write."]


def test_the_table_has_a_total_and_the_currency(call, ledger, prices):
    lines = call("cost", "--prices", prices, "--ledger", ledger).splitlines()

    assert lines[0].split()[:3] == ["OPERATION", "TOPIC", "PUT"]
    assert lines[0].split()[-1] == "EUR"
    assert lines[1].split()[:3] == ["append", "orders", "2000"]
    assert lines[-1].split()[:3] == ["total", "-", "2010"]
    assert lines[-1].split()[-1] == "1.025201"


def test_a_cost_is_extrapolated(call, ledger, prices):
    once = call.json("cost", "--prices", prices, "--ledger", ledger)
    hour = call.json("cost", "--prices", prices, "--ledger", ledger, "--per", "hour")
    month = call.json("cost", "--prices", prices, "--ledger", ledger, "--per", "month")

    assert hour["total"]["cost"] == pytest.approx(60 * once["total"]["cost"])
    assert hour["total"]["requests"]["PUT"] == 60 * 2010
    assert month["total"]["cost"] == pytest.approx(24 * 30 * hour["total"]["cost"])


def test_ledgers_are_added_up(call, ledger, prices):
    both = call.json("cost", "--prices", prices, "--ledger", ledger, "--ledger", ledger)

    assert both["total"]["requests"] == {"PUT": 4020, "GET": 1010}
    assert both["measured_ms"] == 60_000


@pytest.mark.parametrize("name", ["append", "produce"])
def test_one_operation_alone(call, ledger, prices, name):
    answer = call.json("cost", "--prices", prices, "--ledger", ledger, "--for", name)

    assert [row["operation"] for row in answer["rows"]] == ["append"]


def test_a_call_is_measured_and_answers_as_without(call, new_topic, prices):
    topic = new_topic("one", "two")
    offsets = ["get-offsets", "--topic", topic]

    plain = call._run(*offsets)
    measured = call._run("cost", "--prices", prices, "--", *offsets)

    assert (measured.out, measured.code) == (plain.out, 0)
    assert "EUR  open __cluster_metadata: " in measured.complaint
    assert "EUR  total: " in measured.complaint
    assert "Not counted: " in measured.complaint


def test_the_cost_of_a_call_as_json_is_the_last_line_of_standard_error(call, new_topic, prices):
    topic = new_topic("one", "two")
    offsets = ["get-offsets", "--topic", topic]

    plain = call._run(*offsets)
    measured = call._run("cost", "--prices", prices, "--output", "json", "--", *offsets)

    assert (measured.out, measured.code) == (plain.out, 0)
    answer = json.loads(measured.complaint.splitlines()[-1])
    assert answer["currency"] == "EUR"
    assert "open" in [row["operation"] for row in answer["rows"]]


def test_what_an_append_costs_is_one_call(call, new_topic, prices, tmp_path):
    topic = new_topic()
    lines = tmp_path / "lines"
    lines.write_text("a\nb\n")

    measured = call._run(
        *("cost", "--prices", prices, "--for", "produce", "--"),
        *("produce", "--topic", topic, lines),
    )

    assert measured.code == 0, measured
    [line] = [each for each in measured.complaint.splitlines() if f"append {topic}: " in each]
    assert "PUT" in line
    assert "bytes in" in line


def test_a_call_that_fails_has_its_code_and_a_cost(call, prices):
    measured = call._run(
        "cost", "--prices", prices, "--", "topics", "--describe", "--topic", "missing"
    )

    assert measured.code == 2
    assert "missing" in measured.complaint
    assert "EUR  total: " in measured.complaint


def test_a_call_without_the_operation_keeps_its_code(call, prices):
    measured = call._run("cost", "--prices", prices, "--for", "read", "--", "topics", "--list")

    assert measured.code == 0
    assert "--for can't be 'read'" in measured.complaint


# fmt: off
BAD_PRICES = [
    pytest.param("",                                               "no currency",              id="empty"),
    pytest.param("currency = 7\n",                                 "no currency",              id="a number for a name"),
    pytest.param("currency = \"EUR\n",                             "can't be read",            id="no TOML"),
    pytest.param("currency = \"EUR\"\n",                           "no table [requests]",      id="no prices"),
    pytest.param("currency = \"EUR\"\n[request]\n",                "did you mean requests?",   id="a misspelled table"),
    pytest.param("currency = \"EUR\"\n[requests]\nPUTS = 1\n",     "did you mean PUT?",        id="a misspelled kind"),
    pytest.param("currency = \"EUR\"\n[requests]\nPUT = 1\n",      "no price of COPY",         id="a price is missing"),
]
AMOUNTS = ["-1", "nan", "inf", "true", '"1"', "1e308", "1" + 400 * "0"]
# fmt: on


@pytest.mark.parametrize("content, why", BAD_PRICES)
def test_a_wrong_price_list_is_told_in_a_sentence(call, ledger, tmp_path, content, why):
    path = tmp_path / "wrong.toml"
    path.write_text(content)

    assert why in call.refused("cost", "--prices", path, "--ledger", ledger)


@pytest.mark.parametrize("amount", AMOUNTS)
def test_a_price_is_an_amount(prices, amount):
    prices.write_text(prices.read_text().replace("PUT = 0.5", f"PUT = {amount}"))

    with pytest.raises(InvalidRequestError, match=r"\[requests\] PUT can't be"):
        read_prices(prices)


def wrong(**changes):
    return json.dumps({**json.loads(ledger_text(REPORT)), **changes})


ROW = json.loads(ledger_text(REPORT))["rows"][0]
BAD_LEDGERS = [
    "",
    "[]",
    "7",
    "{}",
    wrong(rows=7),
    wrong(rows=[7]),
    wrong(rows=[{**ROW, "requests": 7}]),
    wrong(rows=[{**ROW, "requests": {"MOVE": 1}}]),
    wrong(rows=[{**ROW, "requests": {"PUT": -1}}]),
    wrong(rows=[{**ROW, "requests": {"PUT": 1.5}}]),
    wrong(rows=[{**ROW, "bytes_in": "1"}]),
    wrong(rows=[{**ROW, "topic": None}]),
    wrong(process_cpu_ms=math.inf),
    wrong(process_cpu_ms=True),
    wrong(process_cpu_ms=10**400),
    wrong(not_counted="all"),
]


@pytest.mark.parametrize("content", BAD_LEDGERS)
def test_what_is_no_ledger_is_told_in_a_sentence(call, ledger, prices, content):
    ledger.write_text(content)

    assert "is no ledger" in call.refused("cost", "--prices", prices, "--ledger", ledger)


def test_a_missing_file_is_told_in_a_sentence(call, ledger, prices, tmp_path):
    missing = tmp_path / "missing"

    assert "can't be read" in call.refused("cost", "--prices", missing, "--ledger", ledger)
    assert "can't be read" in call.refused("cost", "--prices", prices, "--ledger", missing)


def test_a_ledger_or_a_call_is_needed_and_not_both(call, ledger, prices):
    neither = call.refused("cost", "--prices", prices)
    both = call.refused("cost", "--prices", prices, "--ledger", ledger, "--", "topics", "--list")

    assert neither == both
    assert "--ledger FILE" in neither


def test_an_operation_that_is_not_there_is_refused(call, ledger, prices):
    said = call.refused("cost", "--prices", prices, "--ledger", ledger, "--for", "apend")

    assert "it has append, probe, read" in said


def test_a_ledger_of_no_time_is_not_extrapolated(call, ledger, prices):
    ledger.write_text(wrong(ended_at_ms=REPORT.began_at_ms))

    said = call.refused("cost", "--prices", prices, "--ledger", ledger, "--per", "day")

    assert "--per" in said


def test_the_ledger_of_a_process_stays_when_it_ends(tmp_path):
    path = tmp_path / "ledger.json"
    file = TextFile(path, 60, lambda: ledger_text(REPORT), option="--ledger", stays=True)

    assert file.close(60)

    assert read_ledger(path) == REPORT
    with pytest.raises(InvalidRequestError, match="--ledger"):
        TextFile(tmp_path / "no" / "ledger", 60, lambda: "", option="--ledger", stays=True)
