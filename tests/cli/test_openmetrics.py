"""Figures as text: names of Kafka's exporter, words of users as values, bounds; and as a file."""

import logging
import threading

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as of_openmetrics
from prometheus_client.parser import text_string_to_metric_families as of_prometheus

from kafka_on_spark.cli.serve.text_file import TextFile
from kafka_on_spark.cluster.openmetrics import (
    SERIES_MAX,
    openmetrics,
    prometheus_text,
)
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ports.counting import COMMITS, PROBE_MS
from kafka_on_spark.service.describe.counts import Counts
from kafka_on_spark.service.describe.metric import (
    COUNTERS,
    DOMAINS,
    GAUGES,
    HELP,
    TIMES,
    Metric,
    exported_name,
)
from tests.fakes import FakeClock

WAIT_S = 60
HOSTILE = 'a"b\\c\nd} 1\n# EOF\nevil{x="é\u202e'


def lag(value, group="g", topic="orders"):
    labels = {"consumergroup": group, "topic": topic}
    return Metric(type="ConsumerGroup", name="lag", labels=labels, value=value)


def samples(text, parse=of_openmetrics):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def test_every_figure_has_a_name_and_no_two_have_the_same():
    names = {exported_name(*figure) for figure in HELP}

    assert len(names) == len(HELP)
    assert len(HELP) == len(GAUGES) + len(COUNTERS) + len(TIMES)
    assert {kind for kind, _ in HELP} == DOMAINS.keys()
    assert exported_name("ReplicaManager", "UnderReplicatedPartitions") == (
        "kafka_server_replicamanager_underreplicatedpartitions"
    )


@pytest.mark.parametrize(
    "write, parse", [(openmetrics, of_openmetrics), (prometheus_text, of_prometheus)]
)
def test_words_of_users_are_values_and_nothing_else(write, parse):
    found = samples(write([lag(7, HOSTILE), lag(8)]), parse)

    assert {key: value for key, value in found.items() if "lag" in key[0]} == {
        ("kafka_consumergroup_lag", HOSTILE, "orders"): 7,
        ("kafka_consumergroup_lag", "g", "orders"): 8,
    }
    assert not any("evil" in key[0] for key in found)


def test_counts_and_times_are_counters_and_histograms():
    clock = FakeClock()
    counts = Counts(clock.monotonic_ms)
    counts.count(COMMITS, outcome="conflict")
    for took_ms in (3, 7, 10**9):
        counts.observe(PROBE_MS, took_ms, broker=1)

    assert all((each.type, each.name) in COUNTERS | TIMES for each in counts.metrics())
    families = {each.name: each for each in of_openmetrics(openmetrics(counts.metrics()))}
    assert families["kafka_on_spark_metadata_commits"].type == "counter"
    assert families["kafka_on_spark_probe_ms"].type == "histogram"
    found = samples(openmetrics(counts.metrics()))
    assert found["kafka_on_spark_metadata_commits_total", "conflict"] == 1
    assert found["kafka_on_spark_probe_ms_bucket", "1", "5.0"] == 1
    assert found["kafka_on_spark_probe_ms_bucket", "1", "120000.0"] == 2
    assert found["kafka_on_spark_probe_ms_bucket", "1", "+Inf"] == 3
    assert found["kafka_on_spark_probe_ms_count", "1"] == 3


def test_of_too_many_series_the_largest_stay_and_the_rest_is_told():
    many = [lag(number, f"g{number}") for number in range(SERIES_MAX + 3)]

    found = samples(openmetrics(many))

    kept = [key for key in found if key[0] == "kafka_consumergroup_lag"]
    assert len(kept) == SERIES_MAX
    assert ("kafka_consumergroup_lag", "g2", "orders") not in found
    assert found["kafka_on_spark_metrics_left_out", "kafka_consumergroup_lag"] == 3


def test_sentences_are_no_labels():
    failing = Metric(
        type="Upkeep", name="failing-for-ms", labels={"kind": "merge", "error": "away"}, value=5
    )

    assert samples(openmetrics([failing])) == {("kafka_on_spark_upkeep_failing_for_ms", "merge"): 5}


def test_memory_and_processor_time_of_the_process_are_there_on_request():
    assert ("process_cpu_seconds_total",) in samples(openmetrics([], has_process=True))
    assert samples(openmetrics([])) == {}


def test_a_text_file_is_whole_is_renewed_and_goes_at_the_end(tmp_path):
    path = tmp_path / "kafka.prom"
    values = iter(range(10**6))
    file = TextFile(path, 0.01, lambda: prometheus_text([lag(next(values))]))

    first = samples(path.read_text(), of_prometheus)
    while samples(path.read_text(), of_prometheus) == first:
        pass
    assert file.close(WAIT_S)

    assert list(tmp_path.iterdir()) == []


def test_a_text_file_that_can_not_be_written_is_refused_at_the_start(tmp_path):
    with pytest.raises(InvalidRequestError, match="--textfile"):
        TextFile(tmp_path / "missing" / "kafka.prom", 1, lambda: "")


def test_a_text_file_that_fails_later_is_written_again_once_it_can_be(tmp_path, caplog):
    folder = tmp_path / "there"
    folder.mkdir()
    path = folder / "kafka.prom"
    going = []

    def text():
        # Between two writes: one that it goes away from half done fails with other words.
        if going:
            going.pop().rename(tmp_path / "away")
        return "x 1\n"

    caplog.set_level(logging.INFO)
    file = TextFile(path, 0.01, text)
    going.append(folder)
    while "can't be written" not in caplog.text:
        pass
    (tmp_path / "away").rename(folder)
    path.unlink()
    while not path.exists():
        pass
    assert file.close(WAIT_S)

    assert caplog.text.count("can't be written") == 1
    assert caplog.text.count("are written to") == 1, "its end is told, too"


def test_a_text_that_can_not_be_made_is_logged_and_leaves_no_old_figures(tmp_path, caplog):
    path = tmp_path / "kafka.prom"
    is_broken = False

    def text():
        if is_broken:
            raise ZeroDivisionError("a bug")
        return "x 1\n"

    file = TextFile(path, 0.01, text)
    is_broken = True
    while path.exists() or "a bug" not in caplog.text:
        pass
    is_broken = False
    while not path.exists():
        pass
    assert file.close(WAIT_S)

    [told] = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert told.exc_info


def test_a_text_file_whose_disk_hangs_holds_up_nobody(tmp_path):
    began, thawed = threading.Event(), threading.Event()
    texts = iter(["x 1\n"])

    def text():
        for each in texts:
            return each
        began.set()
        thawed.wait(WAIT_S)
        return "x 2\n"

    file = TextFile(tmp_path / "kafka.prom", 0.01, text)
    assert began.wait(WAIT_S)
    is_done = file.close(0.01)
    thawed.set()

    assert not is_done
    assert file.close(WAIT_S)
