"""What can't be done is refused in one sentence, and nothing of it is done."""

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import InvalidRequestError, RequestTimedOutError
from kafka_on_spark.cli.topics import changed_settings
from tests.cli.conftest import CommandLine

FILES = {
    "not-json": "{",
    "no-list": '{"version": 1}',
    "empty": '{"partitions": []}',
    "version": '{"version": 2, "partitions": [{"topic": "t", "partition": 0}]}',
    "no-partition": '{"partitions": [{"topic": "t"}]}',
    "true-partition": '{"partitions": [{"topic": "t", "partition": true}]}',
    "twice": '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1]},'
    ' {"topic": "t", "partition": 0, "replicas": [1]}]}',
    "words": '{"partitions": [{"topic": "t", "partition": 0, "replicas": ["one"]}]}',
    "unknown": '{"partitions": [{"topic": "nobody", "partition": 0, "replicas": [1], "offset": 0}]}',
}
EXECUTE = ("reassign-partitions", "--execute", "--reassignment-json-file")
RESET = ("consumer-groups", "--reset-offsets", "--group", "g")
DELETE = ("delete-records", "--yes", "--offset-json-file")

# fmt: off
REFUSALS = [
    (("topics",), "takes one action, and was given none: choose one of --create, --alter"),
    (("topics", "--list", "--create"), "takes one action, and was given --create and --list:"),
    (("topics", "--list", "--partitions", "3"), "--partitions does not go with --list: leave it out, or use it with --create or --alter"),
    (("topics", "--list", "--yes"), "--yes does not go with --list"),
    (("topics", "--create"), "--topic is missing: topics"),
    (("topics", "--create", "--topic", "new", "--config", "retention.ms"), "--config can't be 'retention.ms': give NAME=VALUE"),
    (("topics", "--create", "--topic", "new", "--replica-assignment", "1:x"), "--replica-assignment can't be '1,x'"),
    (("topics", "--create", "--topic", "new", "--partitions", "three"), "Invalid value for '--partitions': Input should be a valid integer"),
    (("topics", "--create", "--topic", "new", "--replica-assignment", "1_0:2"), "--replica-assignment can't be '1_0,2'"),
    (("topics", "--describe", "--include", "["), "--include can't be '[', which is not a regular expression"),
    (("configs", "--describe", "--add-config", "a=b"), "--add-config does not go with --describe"),
    (("configs", "--alter"), "there is nothing to alter"),
    (("configs", "--alter", "--topic", "nobody"), "there is nothing to alter"),
    (("reassign-partitions", "--verify"), "--reassignment-json-file is missing"),
    ((*EXECUTE, "/no/where"), "/no/where can't be read"),
    ((*EXECUTE, "{not-json}"), "can't be read as JSON"),
    ((*EXECUTE, "{no-list}"), 'has no list "partitions"'),
    ((*EXECUTE, "{empty}"), 'has no list "partitions"'),
    ((*EXECUTE, "{version}"), 'has no list "partitions" of version 1'),
    ((*EXECUTE, "{no-partition}"), 'can\'t be {"topic": "t"}: give an object such as {"topic": "flights", "partition": 0, "replicas": [1, 2, 3]}'),
    ((*EXECUTE, "{true-partition}"), "partitions[0] of"),
    ((*EXECUTE, "{twice}"), "names t-0 again"),
    ((*EXECUTE, "{words}"), 'can\'t be {"topic": "t", "partition": 0, "replicas": ["one"]}'),
    ((*EXECUTE, "{unknown}"), "there is no topic 'nobody'"),
    ((*DELETE, "{words}"), '"partition": 0, "offset": 42}'),
    (("leader-election", "--election-type", "dirty", "--all-topic-partitions"), "can't hold a 'dirty' election"),
    (("leader-election", "--election-type", "preferred"), "give one of --topic, --all-topic-partitions, --path-to-json-file"),
    (("leader-election", "--election-type", "preferred", "--partition", "0", "--all-topic-partitions"), "give one of --partition, --all-topic-partitions"),
    (("get-offsets", "--time", "yesterday"), "--time can't be 'yesterday'"),
    (("get-offsets", "--time", "2026-01-31T12:00:00"), "a time with its zone"),
    (("get-offsets", "--partitions", "first"), "--partitions can't be 'first'"),
    (("get-offsets", "--partitions", "77"), "none of the topics has a partition 77"),
    (("consumer-groups",), "choose one of --list, --describe, --delete, --delete-offsets, --remove-members, --reset-offsets"),
    (("consumer-groups", "--list", "--group", "g"), "--group does not go with --list"),
    (("consumer-groups", "--describe"), "give one of --group, --all-groups"),
    (("consumer-groups", "--describe", "--group", "g", "--all-groups"), "give one of --group, --all-groups"),
    (("consumer-groups", "--describe", "--group", "nobody"), "there is no consumer group 'nobody'"),
    (("consumer-groups", "--delete-offsets", "--group", "g", "--group", "h", "--topic", "t"), "takes one --group"),
    (("consumer-groups", "--delete-offsets", "--group", "g"), "--topic is missing"),
    ((*RESET, "--all-topics"), "give one of --to-earliest, --to-latest"),
    ((*RESET, "--all-topics", "--to-offset", "0", "--to-latest"), "give one of --to-earliest"),
    ((*RESET, "--to-latest"), "give one of --topic, --all-topics"),
    ((*RESET, "--to-datetime", "soon", "--all-topics"), "--to-datetime can't be 'soon'"),
    (("dump-log", "--topic", "t", "--limit", "-1"), "--limit"),
    (("dump-log",), "--topic is missing"),
    (("brokers", "--drain"), "--broker is missing"),
    (("brokers", "--register", "--broker", "77"), "--root is missing"),
    (("controller", "--describe", "--seconds", "1"), "--seconds does not go with --describe"),
    (("controller", "--run", "--seconds", "-1"), "--seconds"),
    (("metadata",), "choose one of --log, --image"),
    (("metadata", "--image", "--offset", "3"), "--offset does not go with --image"),
    (("dump-log", "--topic", "x", "--as-of", "3"), "No such option: --as-of"),
    (("topics", "--create", "--topic", "x", "--as-of", "3"), "--as-of does not go with --create"),
    (("topics", "--list", "--as-of", "yesterday"), "--as-of can't be 'yesterday'"),
    (("topics", "--list", "--as-of", "999999999"), "the metadata log has offsets 0 to"),
    (("topics", "--list", "--as-of", "2999-01-01T00:00:00Z"), "that has not come yet"),
    (("controller", "--run", "--dry-run", "--seconds", "1"), "give one of --dry-run, --seconds"),
    (("cluster", "--create", "--metadata-root", "/no/where"), "--broker is missing"),
    (("cluster", "--create", "--metadata-root", "/no/where", "--broker", "1=/a", "--broker", "1=/b"), "broker 1 twice"),
    (("configs", "--describe", "--entity-type", "users", "--entity-name", "x"), "settings are those of topics, or the cluster's"),
    (("configs", "--describe", "--entity-type", "brokers", "--entity-name", "1"), "give topics by --entity-name, or --entity-type brokers alone"),
    (("configs", "--describe", "--entity-default", "--entity-name", "x"), "--entity-type brokers alone"),
    (("configs", "--describe", "--entity-type", "topics", "--entity-default"), "--entity-type brokers alone"),
    (("configs", "--alter", "--entity-type", "topics", "--add-config", "retention.ms=5"), "--entity-name is missing"),
    (("consumer-groups", "--describe", "--all-groups", "--state", "--members"), "give one of --"),
    (("consumer-groups", "--list", "--members"), "--members does not go with --list"),
    (("topcs", "--list"), "Did you mean 'topics'?"),
    (("topics", "--lost"), "No such option"),
    (("topics", "--list", "--output", "xml"), "'xml'"),
    (("topics", "--list", "--storage-option", "x"), "--storage-option can't be 'x': give NAME=VALUE"),
    (("topics", "--list", "--cluster", "/no/where"), "there is no cluster at /no/where"),
]
# fmt: on


@pytest.mark.parametrize("arguments, words", REFUSALS)
def test_refused_in_one_sentence_and_nothing_is_done(call, cluster, tmp_path, arguments, words):
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    files = {f"{{{name}}}": str(tmp_path / name) for name in FILES}
    before = cluster.image

    assert words in call.refused(*(files.get(each, each) for each in arguments))

    assert cluster.image == before


def test_cluster_that_is_not_named_is_asked_for(monkeypatch):
    monkeypatch.delenv("KAFKA_ON_SPARK_CLUSTER", raising=False)

    refusal = CommandLine("").refused("topics", "--list")

    assert "--cluster" in refusal
    assert "KAFKA_ON_SPARK_CLUSTER" in refusal


def test_command_that_timed_out_says_so(call, monkeypatch):
    def time_out(*arguments):
        raise RequestTimedOutError("commits to the metadata log keep conflicting")

    monkeypatch.setattr(Cluster, "elect_leaders", time_out)

    refusal = call.refused(
        "leader-election", "--election-type", "preferred", "--all-topic-partitions"
    )

    assert refusal == "commits to the metadata log keep conflicting"


def test_setting_that_is_set_and_deleted_at_once_is_refused():
    with pytest.raises(InvalidRequestError, match="can't be set and deleted at once"):
        changed_settings(["a=1"], "a")


def test_partition_or_replica_that_is_not_there_is_refused(call, new_topic):
    topic = new_topic(b"a", replica_assignment={0: [1, 2]})

    assert "has no partition 3" in call.refused("dump-log", "--topic", topic, "--partition", 3)
    assert "broker 3 has no replica" in call.refused("dump-log", "--topic", topic, "--broker", 3)
    refusal = call.refused("dump-log", "--topic", topic, "--partition", 0, "--broker", 3)
    assert "broker 3 has no replica" in refusal
    assert "[1, 2]" in refusal


def test_help_says_what_each_verb_does_and_no_arguments_are_a_question_for_it(call):
    assert call() == call("--help")
    assert "leader-election" in call("--help")
    assert "--under-min-isr-partitions" in call("topics", "--help")
