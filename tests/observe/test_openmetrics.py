"""Figures as text for Prometheus."""

from prometheus_client.openmetrics.parser import text_string_to_metric_families as of_openmetrics

from kafka_on_spark.observe.figures import openmetrics
from kafka_on_spark.store.counts import (
    COMMITS,
    COUNTERS,
    DOMAINS,
    GAUGES,
    HELP,
    PROBE_MS,
    TIMES,
    Counts,
    Metric,
    exported_name,
)
from tests.fakes import FakeClock

HOSTILE = 'a"b\\c\nd} 1\n# EOF\nevil{x="é\u202e'


def lag(value, group="g", topic="orders"):
    labels = {"consumergroup": group, "topic": topic}
    return Metric(type="ConsumerGroup", name="lag", labels=labels, value=value)


def samples(text):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in of_openmetrics(text)
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


def test_words_of_users_are_values_and_nothing_else():
    found = samples(openmetrics([lag(7, HOSTILE), lag(8)]))

    assert {key: value for key, value in found.items() if "lag" in key[0]} == {
        ("kafka_consumergroup_lag", HOSTILE, "orders"): 7,
        ("kafka_consumergroup_lag", "g", "orders"): 8,
    }
    assert not any("evil" in key[0] for key in found)


def test_counts_and_times_are_counters_and_histograms():
    clock = FakeClock()
    counts = Counts(clock.monotonic_ms)
    counts.add(COMMITS, outcome="conflict")
    for took_ms in (3, 7, 10**9):
        counts.add(PROBE_MS, took_ms, broker=1)

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


def test_sentences_are_no_labels():
    failing = Metric(type="Log", name="Unreadable", labels={"broker": 1, "error": "away"}, value=1)

    [name] = samples(openmetrics([failing]))

    assert name[1:] == ("1",)


def test_memory_and_processor_time_of_the_process_are_there_on_request():
    assert ("process_cpu_seconds_total",) in samples(openmetrics([], has_process=True))
    assert samples(openmetrics([])) == {}
