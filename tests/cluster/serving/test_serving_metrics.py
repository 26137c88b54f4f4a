"""Figures of real processes: at the port of `serve`, and of a notebook's cluster."""

import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as of_openmetrics

from kafka_on_spark.observe.figures import OPENMETRICS
from tests.cluster.disks import new_disks, records
from tests.cluster.serving.processes import WAIT_S_MAX, served, wait_for
from tests.cluster.serving.test_serve import QUICK


@pytest.fixture
def disks():
    with new_disks(configs=QUICK) as disks:
        disks.cluster.create_topic("orders", partitions=2, replication_factor=3)
        yield disks


def samples(text):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in of_openmetrics(text)
        for sample in family.samples
    }


def test_a_served_cluster_tells_its_state_and_its_work_at_the_port(disks):
    disks.cluster.append("orders", records(b"first"))
    with served(disks.metadata_root, 1) as [one]:
        one.becomes("controller")
        disks.cluster.append("orders", records(*[b"later"] * 10))

        def looked():
            found = samples(scraped(one))
            return found if found.get((MESSAGES_IN, "orders")) == 10 else None

        found = wait_for(looked)
        assert found["kafka_controller_kafkacontroller_activecontrollercount",] == 1
        assert found["kafka_controller_kafkacontroller_globalpartitioncount",] == 2
        assert found["kafka_server_replicamanager_underreplicatedpartitions",] == 0
        assert found["kafka_on_spark_serving_failing", "pass"] == 0
        assert found["kafka_on_spark_metadata_commits_total", "committed"] > 0
        assert found["kafka_on_spark_probe_ms_count", "1"] > 0
        for root in (disks.metadata_root, disks.root(1)):
            assert found["kafka_on_spark_root_free_bytes", str(root)] > 0
        assert found["kafka_on_spark_serving_pass_ms_count",] > 0
        assert found["kafka_log_logflushstats_logflushrateandtimems_count",] > 0
        assert found["process_resident_memory_bytes",] > 0
        assert one.end() == 0


@pytest.mark.long
def test_a_process_that_is_cut_off_from_the_metadata_says_nothing_of_the_cluster(disks):
    away = disks.base / "meta-away"
    with served(disks.metadata_root, 1) as [one]:
        one.becomes("controller")
        disks.metadata_root.rename(away)

        def is_cut_off():
            found = samples(scraped(one))
            return found if (PARTITIONS,) not in found else None

        found = wait_for(is_cut_off)
        assert found[CONTROLLERS,] == 0
        assert found["kafka_on_spark_serving_failing", "metadata"] == 1
        of_image = ("kafka_controller_kafkacontroller", "kafka_server_replicamanager_under")
        assert {name for name, *_ in found if name.startswith(of_image)} == {CONTROLLERS}
        assert found["kafka_on_spark_metadata_commits_total", "committed"] > 0

        away.rename(disks.metadata_root)
        one.becomes("controller")
        assert wait_for(lambda: samples(scraped(one)).get((PARTITIONS,))) == 2


CONTROLLERS = "kafka_controller_kafkacontroller_activecontrollercount"
PARTITIONS = "kafka_controller_kafkacontroller_globalpartitioncount"
MESSAGES_IN = "kafka_server_brokertopicmetrics_messagesin_total"


def scraped(process):
    with urllib.request.urlopen(f"{process.address}/metrics", timeout=WAIT_S_MAX) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == OPENMETRICS
        return answer.read().decode()


def test_a_notebook_has_the_figures_of_its_own_work(disks):
    cluster = disks.cluster
    cluster.append("orders", records(*[b"value"] * 5))
    with cluster.consumer("orders", group='a "group"', auto_offset_reset="earliest") as consumer:
        taken = 0
        while taken < 5:
            taken += consumer.poll(1000).num_rows
        consumer.commit()
    cluster.append("orders", records(*[b"value"] * 2))
    cluster.replicate()

    found = samples(cluster.openmetrics())

    assert found["kafka_consumergroup_lag", 'a "group"', "orders"] == 2
    assert found[MESSAGES_IN, "orders"] == 7
    assert found["kafka_server_brokertopicmetrics_messagesout_total", "orders"] == 5
    assert found["kafka_server_brokertopicmetrics_bytesin_total", "orders"] > 0
    assert found["kafka_server_brokertopicmetrics_failedproducerequests_total", "orders"] == 0
    assert found["kafka_network_requestmetrics_totaltimems_count", "Produce"] == 2
    assert found["kafka_network_requestmetrics_totaltimems_count", "Fetch"] >= 1
    assert found["kafka_on_spark_serving_round_ms_count",] == 1
    assert found["kafka_controller_kafkacontroller_activecontrollercount",] == 0
    for never in (
        ("kafka_controller_controllerstats_uncleanleaderelections_total",),
        ("kafka_on_spark_metadata_commits_total", "unknown"),
    ):
        assert found[never] == 0, "what has not happened yet is counted as 0"
    names = {(each.type, each.name) for each in cluster.metrics()}
    assert {("Log", "Size"), ("ReplicaManager", "UnderReplicatedPartitions")} <= names
