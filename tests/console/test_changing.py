"""A change is decided first, committed only as it was shown, and told by its three outcomes."""

import json
import urllib.error
import urllib.request

import pytest

from kafka_on_spark.cli.serve.console import decided
from kafka_on_spark.console.changing import KINDS, Changes
from kafka_on_spark.errors import CommitOutcomeUnknownError, RequestTimedOutError
from tests.cluster.disks import new_disks, records
from tests.console.browsers import console_of

ROWS = [["TopicRecord", "because", "topic=orders"]]


class Cluster:
    """Notes what it is asked to do, or fails."""

    def __init__(self, error=None):
        self.asked = []
        self._error = error

    def drain_broker(self, broker):
        self.asked.append(broker)
        if self._error is not None:
            raise self._error

    resume_broker = drain_broker


def changes(cluster, *decisions):
    """Return changes whose decisions are these, one after the other."""
    given = iter(decisions)
    return Changes(cluster, lambda _, change: next(given))


def drain(shown=None):
    return {"kind": "drain-broker", "arguments": {"broker": 2}, "shown": shown}


def test_nothing_is_committed_before_it_was_shown():
    cluster = Cluster()

    answer = changes(cluster, ROWS).answer(drain())

    assert answer == {"outcome": "shown", "words": "drain broker 2", "rows": ROWS}
    assert cluster.asked == []


def test_what_was_shown_is_committed():
    cluster = Cluster()

    assert changes(cluster, ROWS).answer(drain(ROWS))["outcome"] == "committed"
    assert cluster.asked == [2]


def test_what_would_be_something_else_by_now_is_shown_again():
    cluster, other = Cluster(), [["TopicRecord", "because", "topic=payments"]]

    answer = changes(cluster, other).answer(drain(ROWS))

    assert (answer["outcome"], answer["rows"]) == ("different", other)
    assert cluster.asked == []


@pytest.mark.parametrize(
    "kind, error, outcome",
    [
        ("resume-broker", RequestTimedOutError("others were faster"), "refused"),
        ("resume-broker", CommitOutcomeUnknownError("no answer came"), "unknown"),
        # It has several commits, and the first may stand.
        ("drain-broker", RequestTimedOutError("others were faster"), "unknown"),
    ],
)
def test_a_commit_that_failed_is_told_by_its_outcome(kind, error, outcome):
    answer = changes(Cluster(error), ROWS).answer({**drain(ROWS), "kind": kind})

    assert answer == {"outcome": outcome, "sentence": str(error)}


BAD = [
    None,
    [],
    {"kind": "drain-broker"},
    {"kind": "drop-everything", "arguments": {}},
    {"kind": ["drain-broker"], "arguments": {}},
    {"kind": "drain-broker", "arguments": {"broker": "2"}},
    {"kind": "drain-broker", "arguments": {"broker": True}},
    {"kind": "drain-broker", "arguments": {"broker": 2}, "shown": "all"},
    {"kind": "reassign", "arguments": {"topic": "t", "partition": 0, "replicas": "1 2"}},
    {"kind": "configure-topic", "arguments": {"topic": "t", "name": "x", "value": 3}},
]


@pytest.mark.parametrize("asked", BAD)
def test_what_is_no_change_is_refused_and_nothing_is_decided(asked):
    assert changes(Cluster()).answer(asked)["outcome"] == "refused"


ASKED = {
    "drain-broker": {"broker": 3},
    "resume-broker": {"broker": 3},
    "elect-leaders": {},
    "reassign": {"topic": "orders", "partition": 0, "replicas": [2, 1]},
    "cancel-reassignment": {"topic": "orders", "partition": 0},
    "configure-topic": {"topic": "orders", "name": "min.insync.replicas", "value": "2"},
    "set-group-offset": {"group": "billing", "topic": "orders", "partition": 0, "offset": 1},
    "delete-group": {"group": "billing"},
    "delete-topic": {"topic": "orders"},
}


def test_every_change_is_decided_and_made_on_a_real_cluster():
    assert ASKED.keys() == KINDS.keys()
    with new_disks() as disks:
        cluster = disks.cluster
        cluster.create_topic("orders", partitions=1, replication_factor=3)
        cluster.append("orders", records(b"a", b"b"))
        real = Changes(cluster, decided)
        for kind, arguments in ASKED.items():
            before = cluster.image.offset
            asked = {"kind": kind, "arguments": arguments}
            shown = real.answer(asked)
            assert shown["outcome"] == "shown", (kind, shown)
            assert cluster.image.offset == before, kind

            made = real.answer({**asked, "shown": json.loads(json.dumps(shown["rows"]))})

            assert made["outcome"] == "committed", (kind, made)
            assert (cluster.image.offset > before) == bool(shown["rows"]), kind
        assert cluster.image.topics == {}
        assert cluster.image.groups == {}


def test_a_refused_change_says_why():
    with new_disks() as disks:
        asked = {"kind": "delete-topic", "arguments": {"topic": "none"}}

        answer = Changes(disks.cluster, decided).answer(asked)

    assert answer["outcome"] == "refused"
    assert "there is no topic" in answer["sentence"]


def refused(address, sent):
    """Send something to a console; return the status with which it is refused."""
    base, token = address.split("/#token=")
    headers = {"Authorization": f"Bearer {token}", "Origin": base}
    request = urllib.request.Request(f"{base}/api/changes", data=sent, headers=headers)
    with pytest.raises(urllib.error.HTTPError) as found:
        urllib.request.urlopen(request, timeout=60)
    with found.value as error:
        return error.code


def test_a_console_without_changes_takes_none():
    with new_disks() as disks, console_of(disks.cluster) as address:
        assert refused(address, json.dumps(drain()).encode()) == 404


@pytest.mark.parametrize("sent", [b"", b"\xff", b"{", b"[" * 100_000])
def test_what_is_no_json_is_no_change(sent):
    with new_disks() as disks, console_of(disks.cluster, decide=decided) as address:
        assert refused(address, sent) == 400
