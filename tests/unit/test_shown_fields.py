"""What a notebook shows: all that a description says, escaped and bounded."""

import pytest

from kafka_on_spark.audit.findings import Finding, FsckReport, Place
from kafka_on_spark.ids import BrokerId
from kafka_on_spark.notebook import ROWS_MAX, shown
from kafka_on_spark.service.control.controller_report import ControllerReport
from kafka_on_spark.service.describe.descriptions import describe, overview
from kafka_on_spark.service.maintain.upkeep_report import UpkeepReport, UpkeepRow
from kafka_on_spark.service.replicate.replication_report import ReplicationReport
from kafka_on_spark.service.what_if.what_if import forecast
from tests.builders import TOPIC, image_of, partition
from tests.unit.inspect.quorums import quorum_of

HOSTILE = "<img src=x>\u202e\x1b[31m"
SEEN = r"&lt;img src=x&gt;\u202e\x1b[31m"


@pytest.fixture
def image():
    return image_of(partition("1 2 3", "1 2", 1), partition("3 2 1", "3", None), fenced="3")


# fmt: off
REPORTS = [
    pytest.param(ControllerReport(fenced=(BrokerId(4),)), ["(4,)"], id="passes"),
    pytest.param(ReplicationReport(copied_records=1234, failures=(HOSTILE,)), ["1234", SEEN], id="a round"),
    pytest.param(UpkeepReport(visited=7, rows=(UpkeepRow(topic=HOSTILE, partition=0, broker_id=BrokerId(2), kind="merge"),)), ["merge", SEEN], id="upkeep"),
    pytest.param(FsckReport(findings=(Finding(invariant="I5", place=Place(), sentence=HOSTILE),), orphans=(), coverage=(), is_deep=True), ["I5", SEEN], id="a check"),
    pytest.param(quorum_of(0, 0, None), ["voter.root"], id="a quorum"),
]
# fmt: on


@pytest.mark.parametrize("report, expected", REPORTS)
def test_a_report_is_shown_escaped_with_what_it_says(report, expected):
    html = report._repr_html_()

    assert [each for each in expected if each not in html] == []
    assert "<img" not in html
    assert html.isascii()


def test_a_topic_and_a_cluster_are_shown_as_tables(image):
    topic, cluster = describe(image, TOPIC)._repr_html_(), shown(HOSTILE, overview(image))

    assert (topic.count("<table"), cluster.count("<table")) == (2, 3)
    assert "is_under_replicated" in topic
    assert TOPIC in cluster
    assert f"<p>{SEEN}</p>" in cluster


def test_of_many_rows_the_first_are_shown_and_all_counted():
    html = shown("much", {"rows": [str(number) for number in range(ROWS_MAX + 1234)]})

    assert f"rows (the first {ROWS_MAX} of 1,434)" in html
    assert html.count("<tr>") == ROWS_MAX


def test_a_forecast_is_shown_as_it_is_printed(image):
    foreseen = forecast(image, frozenset({BrokerId(1)}))

    assert repr(foreseen) == str(foreseen)
