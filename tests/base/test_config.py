"""Settings: unknown names, values, and which layer decides."""

import inspect
from pathlib import Path

import pytest

from kafka_on_spark.base import config
from kafka_on_spark.base.config import (
    SETTINGS,
    Settings,
    check_acks,
    check_settings,
    cluster_settings,
)
from kafka_on_spark.base.errors import InvalidConfigError, InvalidRequiredAcksError


@pytest.mark.parametrize("name", SETTINGS)
def test_every_default_is_allowed(name):
    checked = check_settings({name: SETTINGS[name].default}, topic_only=False)

    assert checked == {name: SETTINGS[name].default}


# fmt: off
UNKNOWN = [
    pytest.param("min.insync.replica",      "did you mean 'min.insync.replicas'",     id="letter-missing"),
    pytest.param("min_insync_replicas",     "did you mean 'min.insync.replicas'",     id="other-separators"),
    pytest.param("uncleanLeaderElection",   "did you mean 'unclean.leader.election",  id="another-spelling"),
    pytest.param("Retention.Ms",            "did you mean 'retention.ms'",            id="capitals"),
    pytest.param("log.retention.hours",     "did you mean 'retention.ms'",            id="a-brokers-default-of-it"),
    pytest.param("log.roll.ms",             "did you mean 'segment.ms'",              id="a-brokers-name-for-it"),
    pytest.param("zzz",                     "known are auto.controller",             id="nothing-near"),
    pytest.param("",                        "known are",                              id="empty"),
]
VALUES = [  # name                           value      text or None: refused
    pytest.param("min.insync.replicas",      2,         "2",             id="number"),
    pytest.param("min.insync.replicas",      "2",       "2",             id="text"),
    pytest.param("min.insync.replicas",      0,         None,            id="below-the-least"),
    pytest.param("min.insync.replicas",      "two",     None,            id="no-number"),
    pytest.param("min.insync.replicas",      1.5,       None,            id="fraction"),
    pytest.param("min.insync.replicas",      None,      None,            id="none"),
    pytest.param("min.insync.replicas",      2**63,     None,            id="above-the-most"),
    pytest.param("segment.bytes",            2**31,     None,            id="above-its-own-most"),
    pytest.param("retention.ms",             -1,        "-1",            id="for-ever"),
    pytest.param("unclean.leader.election.enable", True, "true",         id="bool"),
    pytest.param("unclean.leader.election.enable", "False", "False",     id="capital-as-kafka-allows"),
    pytest.param("unclean.leader.election.enable", "yes", None,          id="no-truth-value"),
    pytest.param("cleanup.policy",           "compact", "compact",       id="one-of"),
    pytest.param("cleanup.policy",           "keep",    None,            id="none-of"),
    pytest.param("cleanup.policy",           "compact,delete", "compact,delete", id="both"),
    pytest.param("cleanup.policy",           "delete, compact", "delete, compact", id="both-in-the-other-order"),
    pytest.param("cleanup.policy",           "delete,delete", None,      id="one-twice"),
    pytest.param("cleanup.policy",           "delete,", None,            id="a-comma-too-many"),
    pytest.param("retention.ms",             " 5 ",     " 5 ",           id="spaces-as-kafka-allows"),
    pytest.param("retention.ms",             "+5",      "+5",            id="a-plus-sign-as-java-allows"),
    pytest.param("retention.ms",             "1_000",   None,            id="only-python-reads-it"),
    pytest.param("retention.ms",             "٣",       None,            id="digits-beyond-ascii"),
    pytest.param("retention.ms",             2**63 - 1, str(2**63 - 1),  id="the-most-of-a-long"),
    pytest.param("retention.ms",             -2,        None,            id="less-than-for-ever"),
    pytest.param("min.insync.replicas",      2**31,     None,            id="above-the-most-of-an-int"),
    pytest.param("max.message.bytes",        -1,        None,            id="negative-size"),
    pytest.param("min.cleanable.dirty.ratio", 0.5,      "0.5",           id="ratio"),
    pytest.param("min.cleanable.dirty.ratio", "1.1",    None,            id="ratio-above-one"),
    pytest.param("min.cleanable.dirty.ratio", "nan",    None,            id="ratio-that-is-none"),
    pytest.param("min.cleanable.dirty.ratio", "half",   None,            id="ratio-in-words"),
    pytest.param("compression.type",         "zstd",    "zstd",          id="a-setting-of-kafka-only"),
    pytest.param("compression.type",         "brotli",  None,            id="and-its-values"),
    pytest.param("flush.messages",           2**63 - 1, str(2**63 - 1),  id="flushing-left-to-the-system"),
    pytest.param("leader.replication.throttled.replicas", "*", "*",      id="all-replicas"),
    pytest.param("leader.replication.throttled.replicas", "", "",        id="no-replicas"),
    pytest.param("follower.replication.throttled.replicas", "0:1,10:2", "0:1,10:2", id="replicas"),
    pytest.param("follower.replication.throttled.replicas", "0:1,", None, id="replicas-with-a-comma-too-many"),
    pytest.param("follower.replication.throttled.replicas", "01:1", None, id="replicas-with-a-leading-zero"),
    pytest.param("follower.replication.throttled.replicas", "1", None,   id="replicas-without-a-broker"),
    pytest.param("message.timestamp.type",   "createtime", None,         id="capitals-count-in-values"),
]
# fmt: on


@pytest.mark.parametrize("name, words", UNKNOWN)
def test_unknown_name_is_an_error_that_names_the_nearest(name, words):
    with pytest.raises(InvalidConfigError, match=words):
        check_settings({name: "1"}, topic_only=False)


@pytest.mark.parametrize("name, value, expected", VALUES)
def test_value(name, value, expected):
    if expected is None:
        with pytest.raises(InvalidConfigError, match="it takes"):
            check_settings({name: value}, topic_only=True)
        return
    assert check_settings({name: value}, topic_only=True) == {name: expected}


# Kafka's TopicConfig as of 4.0, without what is about remote storage.
KAFKA = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "flush.ms": "9223372036854775807",
    "index.interval.bytes": "4096",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


def test_settings_of_a_topic_are_those_of_kafka_with_its_defaults():
    topics = {name: each.default for name, each in SETTINGS.items() if each.is_topic_setting}

    assert {name: topics.get(name) for name in KAFKA} == KAFKA


def test_settings_of_a_topic_of_kafka_can_be_moved_over_as_they_are():
    assert check_settings(KAFKA, topic_only=True) == KAFKA
    assert check_settings({"preallocate": "FALSE", "segment.jitter.ms": " 0"}, topic_only=True)


# fmt: off
CAN_NOT_BE_OBEYED = [
    ("flush.ms",                "1000",  "nothing is flushed by time, but every batch before it counts"),
    ("flush.messages",          "5",     "a batch is flushed before it counts, or flushing is left to the system"),
    ("compression.type",        "lz4",   "compressed by zstd"),
    ("index.interval.bytes",    "4097",  "there are no index files"),
    ("segment.index.bytes",     "4097",  "there are no index files"),
    ("preallocate",             "true",  "segments are written whole"),
    ("segment.jitter.ms",       "5",     "their segments don't end together"),
]
# fmt: on
NOT_OBEYED = {name for name, _, _ in CAN_NOT_BE_OBEYED}


@pytest.mark.parametrize("name, value, reason", CAN_NOT_BE_OBEYED)
def test_a_value_that_can_not_be_obeyed_is_refused_with_the_reason(name, value, reason):
    with pytest.raises(InvalidConfigError, match=reason) as caught:
        check_settings({name: value}, topic_only=True)

    assert f"setting {name!r} can't be" in str(caught.value)


def test_a_number_is_refused_with_both_of_its_bounds():
    for name, setting in SETTINGS.items():
        if not setting.default.lstrip("-").isdecimal() or name in NOT_OBEYED:
            continue
        with pytest.raises(
            InvalidConfigError, match=r"it takes a (whole )?number from \S+ to \S+$"
        ):
            check_settings({name: "many"}, topic_only=False)
    with pytest.raises(InvalidConfigError, match=r"from 0 to 3600000$"):
        check_settings({"file.delete.delay.ms": 3600001}, topic_only=True)


THROTTLES = ("leader.replication.throttled", "follower.replication.throttled")


def test_each_setting_that_takes_any_value_of_kafkas_is_read_somewhere():
    """A value that nothing reads is refused, and not recorded."""
    package = Path(config.__file__).parents[1]
    files = [each for each in package.rglob("*.py") if each.name != "config.py"]
    code = "\n".join([inspect.getsource(Settings), *(each.read_text("utf-8") for each in files)])
    taken = [name for name in SETTINGS if name not in NOT_OBEYED]

    unread = [name for name in taken if f'"{name}"' not in code and not name.startswith(THROTTLES)]

    assert unread == []
    assert len(taken) > 25
    # These names are put together.
    assert all(f'"{name}"' in code for name in THROTTLES)


def test_setting_of_the_cluster_is_refused_for_a_topic():
    assert check_settings({"num.partitions": 3}, topic_only=False) == {"num.partitions": "3"}
    with pytest.raises(InvalidConfigError, match="belongs to the cluster"):
        check_settings({"num.partitions": 3}, topic_only=True)


def test_nearest_layer_decides():
    cluster = Settings(({"min.insync.replicas": "2", "segment.bytes": "2000000"},))
    topic = cluster.over({"min.insync.replicas": "3"})
    call = topic.over({"unclean.leader.election.enable": "TRUE"}, {"min.insync.replicas": "9"})

    assert [each.integer("min.insync.replicas") for each in (cluster, topic, call)] == [2, 3, 9]
    assert call.integer("segment.bytes") == 2_000_000
    assert call.boolean("unclean.leader.election.enable") is True
    assert topic.boolean("unclean.leader.election.enable") is False
    assert Settings().text("cleanup.policy") == "delete"
    assert Settings(({"cleanup.policy": "compact,\tdelete"},)).policies == ["compact", "delete"]


@pytest.mark.parametrize(
    "given, expected", [("all", "all"), (-1, "all"), ("-1", "all"), (1, "1"), ("0", "0")]
)
def test_acks(given, expected):
    assert check_acks(given) == expected


@pytest.mark.parametrize("given", [2, "none", None, "", True])
def test_other_acks_are_refused(given):
    with pytest.raises(InvalidRequiredAcksError, match="acks"):
        check_acks(given)


def test_settings_of_the_file_are_a_new_clusters_in_a_checkout_and_as_installed(
    tmp_path, monkeypatch
):
    """As it comes it changes nothing; that it names all settings is in tests/docs."""
    assert cluster_settings({}) == {}
    for place in ("conf", "kafka_on_spark/conf"):
        root = tmp_path / place.replace("/", "-")
        (root / place).mkdir(parents=True)
        (root / place / "cluster.toml").write_text('[cluster]\n"retention.ms" = 5\n')
        monkeypatch.setattr(config, "__file__", str(root / "kafka_on_spark" / "base" / "config.py"))

        assert cluster_settings({"retention.bytes": "7"}) == {
            "retention.ms": "5",
            "retention.bytes": "7",
        }
