"""What Kafka's tools take is taken, in their spelling; what can't be meant here is refused."""

import os
import subprocess
import sys

import pytest

from kafka_on_spark import __version__
from kafka_on_spark.cli.kafka.kafka_spellings import (
    own_and_rest,
    with_command_config,
    with_optional_values,
)
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.query.offsets.group_offsets import describe_group
from tests.cli.conftest import ROOT


@pytest.mark.parametrize("arguments", [("--version",), ("topics", "--version")])
def test_the_version_is_said(call, arguments):
    assert call(*arguments) == f"kafka-on-spark {__version__}\n"


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
    (("configs", "--describe", "--entity-type", "users", "--entity-name", "x"), "--entity-type can't be 'users'"),
    (("configs", "--describe", "--entity-type", "brokers", "--entity-name", "1"), "a single broker has no settings, so --entity-name can't be '1'"),
    (("configs", "--describe", "--entity-default", "--entity-name", "x"), "a single broker has no settings"),
    (("configs", "--describe", "--entity-type", "topics", "--entity-default"), "give --entity-type brokers"),
    (("configs", "--alter", "--entity-type", "topics", "--add-config", "retention.ms=5"), "--entity-name is missing"),
    (("consumer-groups", "--list", "--state", "Busy"), "--state can't be 'Busy': give some of Unknown, "),
    (("consumer-groups", "--describe", "--all-groups", "--state", "--members"), "--describe shows one thing"),
    (("consumer-groups", "--list", "--members"), "--members does not go with --list"),
    (("topics", "--list", "--command-config"), "--command-config is missing a file"),
    (("topics", "--list", "--command-config", "no-such-file"), "--command-config 'no-such-file' can't be read"),
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
    assert {"group": "nightly", "state": "Empty"} in call.json(
        "consumer-groups", "--list", "--state"
    )
    assert call.json("consumer-groups", "--list", "--state", "Stable,dead") == []
    assert "state" not in call.json("consumer-groups", "--list")[0]
    assert len(describe_group(cluster.image, "nightly")) == 1


def test_what_lies_on_disks_may_be_asked_for_by_name(call, new_topic):
    topic = new_topic(b"a", partitions=1)

    assert call.json("log-dirs", "--describe", "--topic-list", topic) == call.json(
        "log-dirs", "--topic", topic
    )


@pytest.mark.parametrize("kind", ["PREFERRED", "preferred", "UNCLEAN"])
def test_kinds_of_elections_may_be_in_capitals(call, new_topic, kind):
    topic = new_topic(partitions=1)

    answer = call.json("leader-election", "--election-type", kind, "--topic", topic)

    assert answer["elected"] == []


def test_there_are_no_internal_topics_to_leave_out(call, new_topic):
    topic = new_topic(partitions=1)

    assert topic in call.json("topics", "--list", "--exclude-internal")
    assert call.json("topics", "--describe", "--topic", topic, "--exclude-internal")
    assert call.json("get-offsets", "--topic", topic, "--exclude-internal-topics")


def test_a_file_of_a_clients_properties_says_how_roots_are_reached(call, tmp_path):
    file = tmp_path / "client.properties"
    file.write_text(
        "# a client's\nsecurity.protocol=SSL\nstorage.AWS_REGION = eu-west-1\n\nssl.truststore=/x\n"
    )

    assert with_command_config("topics", ["--command-config", str(file), "--list"]) == [
        "--storage-option", "AWS_REGION=eu-west-1", "--list",
    ]  # fmt: skip
    result = call._run("topics", "--list", "--command-config", file, "--output", "json")
    assert result.code == 0
    assert "which are ignored: security.protocol, ssl.truststore." in result.complaint
    (tmp_path / "bad").write_text("what is this")
    with pytest.raises(InvalidRequestError, match="give NAME=VALUE"):
        with_command_config("topics", [f"--command-config={tmp_path / 'bad'}"])


# fmt: off
SETTINGS_IN_A_FILE = [
    ("produce", "acks=2",                 "acks can't be '2'"),
    ("produce", "ack=all",                "property 'ack' means nothing here: a producer takes acks, "),
    ("produce", "transactional.id=t",     "property 'transactional.id' means nothing here"),
    ("produce", "linger.ms=soon",         "property linger.ms can't be 'soon': give a number from 0"),
    ("produce", "group.id=g",             "property 'group.id' means nothing here: a producer takes acks, "),
    ("consume", "group=g",                "property 'group' means nothing here: a consumer takes "),
    ("consume", "auto.offset.reset=soon", "auto.offset.reset can't be 'soon'"),
    ("consumer-groups", "group.id=g",     "consumer-groups takes groups from its options alone: give --group"),
    ("topics",  "storge.AWS_REGION=x",    "gives 'storge.AWS_REGION', which nothing obeys"),
]
# fmt: on


@pytest.mark.parametrize("verb, line, words", SETTINGS_IN_A_FILE)
def test_a_setting_in_a_file_that_nothing_would_obey_is_refused(call, tmp_path, verb, line, words):
    file = tmp_path / "client.properties"
    file.write_text(f"{line}\n")
    of_topic = ("--topic", "t") if verb in ("produce", "consume") else ("--list",)

    assert words in call.refused(verb, *of_topic, "--command-config", file)


def test_a_clients_settings_in_a_file_are_as_given_in_the_call_which_wins(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("acks=1\nsecurity.protocol=SSL\nlinger.ms=7\n")
    own = ["--producer-property", "acks=all"]

    found = with_command_config("produce", [*own, "--command-config", str(file)])

    assert found == [
        "--producer-property", "acks=1", "--producer-property", "linger.ms=7", *own,
    ]  # fmt: skip


@pytest.mark.parametrize("verb, option", [("consume", "consumer"), ("produce", "producer")])
def test_a_file_of_a_clients_settings_may_be_named_as_kafka_named_it(tmp_path, verb, option):
    file = tmp_path / "client.properties"
    file.write_text("acks=1\n")
    expected = [f"--{option}-property", "acks=1"]

    assert with_command_config(verb, [f"--{option}.config", str(file)]) == expected
    assert with_command_config(verb, [f"--{option}.config={file}"]) == expected
    with pytest.raises(InvalidRequestError, match=f"--{option}.config is missing a file"):
        with_command_config(verb, [f"--{option}.config"])
    assert with_command_config("topics", [f"--{option}.config", "f"]) == [f"--{option}.config", "f"]


def test_one_file_of_clients_settings_may_be_given_to_all_verbs(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("group.id=g\nacks=all\ncompression.type=none\n")

    assert with_command_config("topics", ["--command-config", str(file)]) == []


@pytest.mark.parametrize(
    "arguments, own",
    [
        ([], []),
        (["--list"], ["--list"]),
        (["--prices", "p", "--", "produce", "--command-config", "f"], ["--prices", "p"]),
        (["--", "a", "--", "b"], []),
    ],
)
def test_what_is_behind_two_dashes_is_none_of_a_calls_own_options(arguments, own):
    assert own_and_rest(arguments) == (own, arguments[len(own) :])


def test_an_option_whose_value_may_be_left_out_has_one_then():
    assert with_optional_values(["--state", "--list"]) == ["--state=all", "--list"]
    assert with_optional_values(["--list", "--state"]) == ["--list", "--state=all"]
    assert with_optional_values(["--state", "Empty"]) == ["--state", "Empty"]
