"""What Kafka's tools take is taken, in their spelling; what can't be meant here is refused."""

import os
import subprocess
import sys

import pytest

from kafka_on_spark import __version__
from kafka_on_spark.groups.offsets import describe_group
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


# fmt: off
REFUSED = [
    (("configs", "--describe", "--entity-type", "users", "--entity-name", "x"), "settings are those of topics, or the cluster's"),
    (("configs", "--describe", "--entity-type", "brokers", "--entity-name", "1"), "give topics by --entity-name, or --entity-type brokers alone"),
    (("configs", "--describe", "--entity-default", "--entity-name", "x"), "--entity-type brokers alone"),
    (("configs", "--describe", "--entity-type", "topics", "--entity-default"), "--entity-type brokers alone"),
    (("configs", "--alter", "--entity-type", "topics", "--add-config", "retention.ms=5"), "--entity-name is missing"),
    (("consumer-groups", "--describe", "--all-groups", "--state", "--members"), "give one of --"),
    (("consumer-groups", "--list", "--members"), "--members does not go with --list"),
]
# fmt: on


@pytest.mark.parametrize("arguments, words", REFUSED)
def test_what_can_not_be_meant_here_is_refused(call, arguments, words):
    assert words in call.refused(*arguments)


def test_groups_have_kafkas_state_and_no_members(call, new_topic, cluster):
    topic = new_topic(b"a", partitions=1)
    cluster.alter_group_offsets("nightly", {(topic, 0): 1})
    described = ("consumer-groups", "--describe", "--group", "nightly")

    state = call.json(*described, "--state", "--verbose")
    members = call._run(*described, "--members", "--output", "json")
    offsets = call.json(*described, "--offsets", "--verbose")

    assert state == [{"group": "nightly", "state": "Empty", "member_count": 0}]
    assert (members.code, members.out) == (0, "[]\n")
    assert "Group nightly has no members." in members.complaint
    assert [each["current_offset"] for each in offsets] == [1]
    assert offsets == call.json(*described)
    listed = call.json("consumer-groups", "--list", "--state")
    assert (
        {"group": "nightly", "state": "Empty"} in listed == call.json("consumer-groups", "--list")
    )
    assert call("consumer-groups", "--list").splitlines()[:1] == ["GROUP"]
    assert len(describe_group(cluster.image, "nightly")) == 1


@pytest.mark.parametrize("kind", ["PREFERRED", "preferred", "UNCLEAN"])
def test_kinds_of_elections_may_be_in_capitals(call, new_topic, kind):
    topic = new_topic(partitions=1)

    answer = call.json("leader-election", "--election-type", kind, "--topic", topic)

    assert answer["elected"] == []
