"""What Kafka's tools take is taken, in their spelling; what can't be meant here is refused."""

import os
import subprocess
import sys

import pytest

from kafka_on_spark import __version__
from tests.cli.conftest import ROOT


def test_the_version_is_said(call):
    assert call("--version") == f"kafka-on-spark {__version__}\n"


# fmt: off
WORDS = [
    pytest.param("kafka-on-spark consumer-g", 1,           "consumer-groups",  id="a verb"),
    pytest.param("kafka-on-spark topics --under-rep", 2,   "--under-replicated-partitions", id="an option"),
]
# fmt: on


@pytest.mark.parametrize("words, place, expected", WORDS)
def test_a_shell_completes_verbs_and_options(words, place, expected):
    variables = {
        "_KAFKA_ON_SPARK_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place),
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip

    done = subprocess.run(
        [sys.executable, "-m", "kafka_on_spark.cli"],
        env=os.environ | variables, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert done.stdout.split() == [expected], done


def test_options_are_there_where_python_leaves_docstrings_out():
    done = subprocess.run(
        [sys.executable, "-OO", "-m", "kafka_on_spark.cli", "get-offsets", "--help"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip

    assert "--exclude-internal-topics" in done.stdout


def test_settings_are_named_as_kafkas_tool_names_them(call, new_topic, cluster):
    topic, other = new_topic(), new_topic()
    of_topic = ("--entity-type", "topics", "--entity-name", topic)

    call("configs", "--alter", *of_topic, "--add-config", "retention.ms=5")
    call(
        "configs",
        "--alter",
        "--entity-type",
        "brokers",
        "--entity-default",
        "--add-config",
        "num.partitions=7",
    )
    try:
        shown = call.json("configs", "--describe", "--entity-type", "topics")
        cluster_shown = call.json("configs", "--describe", "--entity-type", "brokers")
        default = call.json("configs", "--describe", "--entity-default")
    finally:
        cluster.alter_cluster_configs({"num.partitions": None})

    assert [each["value"] for each in call.json("configs", "--describe", *of_topic)] == ["5"]
    entities = {each["entity"] for each in shown}
    assert f"topic {topic}" in entities
    assert f"topic {other}" not in entities  # it has no settings of its own
    assert "cluster" not in entities
    assert ("num.partitions", "7") in [(each["name"], each["value"]) for each in cluster_shown]
    assert default == cluster_shown


@pytest.mark.parametrize("kind", ["PREFERRED", "preferred", "UNCLEAN"])
def test_kinds_of_elections_may_be_in_capitals(call, new_topic, kind):
    topic = new_topic(partitions=1)

    answer = call.json("leader-election", "--election-type", kind, "--topic", topic)

    assert answer["elected"] == []
