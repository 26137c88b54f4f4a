"""Values as notebooks show them: escaped, bounded, and readable without colours."""

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from kafka_on_spark.audit.findings import Finding, FsckReport, Place
from kafka_on_spark.html_table import ROWS_MAX, html_figures, html_list, html_table, html_text
from kafka_on_spark.ids import BrokerId
from kafka_on_spark.ports.ledger import LedgerReport, LedgerRow, RequestKind
from kafka_on_spark.service.control.controller_report import ControllerReport
from kafka_on_spark.service.describe.cluster_html import cluster_html
from kafka_on_spark.service.describe.descriptions import describe
from kafka_on_spark.service.describe.upkeep_history import UpkeepEvent, UpkeepHistory
from kafka_on_spark.service.maintain.upkeep_report import UpkeepReport, UpkeepRow
from kafka_on_spark.service.replicate.replication_report import ReplicationReport
from kafka_on_spark.service.what_if.what_if import forecast
from tests.builders import TOPIC, image_of, partition

HOSTILE = '<img src=x onerror=alert(1)>"&\u202e\x1b[31m'
ALLOWED = {"table", "caption", "thead", "tbody", "tr", "th", "td", "p", "ul", "li", "pre"}


class Seen(HTMLParser):
    """The elements of a text, and its words; each element is closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.words = [], [], []
        self.attributes = set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def seen(text):
    """Return what a display has, after what holds for all of them."""
    found = Seen(text)
    assert set(found.tags) <= ALLOWED
    assert found.attributes <= {"style", "scope"}
    assert not re.search("color|background", text)
    return found


def test_a_table_has_a_caption_headers_and_cells():
    found = seen(html_table("Brokers", ("broker", "root"), [(1, "/a"), (20, "/b")]))

    assert found.words == ["Brokers", "broker", "root", "1", "/a", "20", "/b"]
    assert found.tags.count("tr") == 3


def test_an_empty_table_has_its_headers():
    assert seen(html_table("Brokers", ("broker", "root"), [])).words == [
        "Brokers",
        "broker",
        "root",
    ]


def test_columns_of_numbers_stand_to_the_right():
    text = html_table("", ("count", "name"), [(1, "a"), (None, "b")])

    assert '<td style="text-align:right">1</td>' in text
    assert '<td style="text-align:right">-</td>' in text
    assert '<td style="text-align:left">a</td>' in text


# fmt: off
CELLS = [
    pytest.param(None,              "-",           id="nothing"),
    pytest.param(True,              "yes",       id="true"),
    pytest.param(False,             "no",        id="false"),
    pytest.param(1_234_567,         "1,234,567", id="a large number"),
    pytest.param(0.12345,           "0.123",     id="a fraction"),
    pytest.param(12345.678,         "12,346",    id="a large fraction"),
    pytest.param((),                "none",      id="no brokers"),
    pytest.param((3, 1),            "3 1",       id="brokers"),
    pytest.param("text",            "text",      id="text"),
]
# fmt: on


@pytest.mark.parametrize("value, words", CELLS)
def test_a_cell_is_written_for_people(value, words):
    assert seen(html_figures("figures", {"name": value})).words == ["figures", "name", words]


@pytest.mark.parametrize(
    "shown",
    [
        html_table(HOSTILE, (HOSTILE,), [(HOSTILE,), ((HOSTILE,),)]),
        html_figures(HOSTILE, {HOSTILE: HOSTILE}),
        html_list(HOSTILE, [HOSTILE]),
        html_text(HOSTILE),
    ],
)
def test_text_that_others_wrote_is_no_markup_and_is_visible(shown):
    found = seen(shown)

    assert all(each == r'<img src=x onerror=alert(1)>"&\u202e\x1b[31m' for each in found.words)
    assert found.words


def test_of_many_rows_the_first_are_shown_and_the_rest_counted():
    rows = [(number,) for number in range(ROWS_MAX + 1234)]

    table = seen(html_table("rows", ("row",), rows))
    sentences = seen(html_list("rows", map(str, range(ROWS_MAX + 1234))))

    assert table.tags.count("tr") == ROWS_MAX + 1
    assert table.words[-1] == sentences.words[-1] == "… and 1,234 more"


def test_no_list_is_shown_of_nothing():
    assert html_list("Failures", []) == ""


@pytest.fixture
def image():
    return image_of(partition("1 2 3", "1 2", 1), partition("3 2 1", "3", None), fenced="3")


def test_a_cluster_shows_its_figures_brokers_and_topics(image):
    words = seen(cluster_html(f"/disk/{HOSTILE}", image)).words

    pairs = dict(pairwise(words[: words.index("Brokers")]))
    assert pairs["partitions"] == "2"
    assert pairs["without a leader"] == "1"
    assert pairs["under-replicated"] == "2"
    assert "Brokers" in words
    assert TOPIC in words
    assert "\x1b" not in "".join(words)


def test_a_topic_shows_which_partition_has_what_problem(image):
    words = seen(describe(image, TOPIC)._repr_html_()).words

    assert "under-replicated" in words
    assert "without a leader, under-replicated" in words


# fmt: off
REPORTS = [
    pytest.param(ControllerReport(fenced=(BrokerId(4),), passes=1, upkeep_failures=(HOSTILE,)),
                 ["brokers fenced", "4", "Upkeep that fails"], id="passes"),
    pytest.param(ReplicationReport(copied_records=1234, failures=(HOSTILE,)),
                 ["records copied", "1,234", "Failures"], id="a round"),
    pytest.param(UpkeepReport(visited=7, rows=(UpkeepRow(topic=HOSTILE, partition=0, broker_id=BrokerId(2), kind="merge", count=3, what="files"),)),
                 ["Upkeep: 7 replicas visited", "merge", "3"], id="upkeep"),
    pytest.param(UpkeepHistory(events=(UpkeepEvent(time=datetime(2026, 1, 2, tzinfo=UTC), topic="t", partition=0, broker_id=None, kind="retention", cause=HOSTILE),), unread=(HOSTILE,)),
                 ["2026-01-02 00:00:00", "t-0", "Not read"], id="a history"),
    pytest.param(LedgerReport(rows=(LedgerRow(operation="append", topic=HOSTILE, requests={RequestKind.PUT: 5}),), began_at_ms=0, ended_at_ms=1, process_cpu_ms=0, not_counted=("This.",)),
                 ["append", "5", "Not counted", "This."], id="a ledger"),
    pytest.param(FsckReport(findings=(Finding(invariant="I5", place=Place(), sentence=HOSTILE),), orphans=(), coverage=(), is_deep=True),
                 ["fsck: something is wrong", "I5"], id="a check"),
    pytest.param(FsckReport(findings=(), orphans=(), coverage=(), is_deep=True, not_checked=("A disk.",)),
                 ["fsck: nothing is wrong", "A disk."], id="a clean check"),
]
# fmt: on


@pytest.mark.parametrize("report, expected", REPORTS)
def test_a_report_shows_what_it_says(report, expected):
    words = seen(report._repr_html_()).words

    for each in expected:
        assert each in words


def test_a_forecast_is_shown_as_it_is_printed(image):
    foreseen = forecast(image, frozenset({BrokerId(1)}))

    assert "".join(seen(foreseen._repr_html_()).words) == str(foreseen)
