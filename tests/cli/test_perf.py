"""`perf`: what it shows was measured; what it can't measure it refuses."""

import re
import shlex
import signal
import time
from itertools import count
from subprocess import PIPE

import pytest

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.cli import perf
from kafka_on_spark.cli.process import Interrupts
from kafka_on_spark.consume.consumer import Consumer
from tests.cluster.disks import records
from tests.pages import blocks

[TRIAL] = blocks("docs/measured.md", "console")


def masked(text):
    return re.sub(r" +", " ", re.sub(r"\b[0-9a-f]{32}\b|…|\d[\d,.]*|-$", "N", text, flags=re.M))


def test_the_trial_of_the_page_says_what_it_says(call):
    calls = re.findall(r"^\$ kafka-on-spark (.*)\n((?:(?!\$ ).*\n)*)", TRIAL, re.M)

    assert len(calls) == 3
    for arguments, expected in calls:
        assert masked(call(*shlex.split(arguments))) == masked(expected)


def test_what_is_shown_was_appended_and_read(call, new_topic, cluster):
    topic = new_topic(replica_assignment={0: [1]})

    appended = call.json(
        "perf", "produce", "--topic", topic, "--num-records", 30, "--record-size", 40, "--acks", 1
    )
    read = call.json("perf", "consume", "--topic", topic, "--group", topic)

    values = cluster.read(topic).column("value").to_pylist()
    assert ({len(each) for each in values}, len(set(values))) == ({40}, 30)
    assert appended["record_count"] == read["record_count"] == cluster.count(topic) == 30
    least, *others = (appended[each] for each in ("p50_ms", "p95_ms", "p99_ms", "max_ms"))
    assert 0 < least <= appended["max_ms"]
    assert sorted(others) == others
    for found in (appended, read):
        # Each is rounded to three digits.
        assert 30 / found["records_per_s"] == pytest.approx(found["seconds"], abs=0.001)
        assert found["mb_per_s"] == pytest.approx(found["records_per_s"] * 40 / 2**20, abs=0.001)
    assert 0 < read["first_record_ms"] <= read["seconds"] * 1000 + 1
    assert [each.lag for each in cluster.describe_group(topic)] == [0]
    nothing = call.json("perf", "consume", "--topic", topic, "--group", topic)
    assert nothing == {"record_count": 0, "seconds": 0.0, "records_per_s": None, "mb_per_s": None}


def test_the_time_without_records_ends_a_measurement_that_asks_for_more(call, new_topic):
    topic = new_topic(b"a", b"b")

    found = call.json("perf", "consume", "--topic", topic, "--num-records", 3, "--timeout-ms", 100)

    assert found["record_count"] == 2


def test_records_that_others_append_meanwhile_do_not_keep_it_from_its_end(
    call, new_topic, cluster, monkeypatch
):
    topic, polls, poll = new_topic(b"a"), count(), Consumer.poll

    def after_another(consumer, timeout_ms):
        assert next(polls) < 3
        cluster.append(topic, records(b"b"))
        return poll(consumer, timeout_ms)

    monkeypatch.setattr(Consumer, "poll", after_another)

    assert call.json("perf", "consume", "--topic", topic)["record_count"] in (1, 2)


def test_figures_are_those_of_the_answers(monkeypatch):
    now = iter([0.0, *range(10, 1010, 10)])
    monkeypatch.setattr(perf, "CLOCK", type("Clock", (), {"precise_ms": lambda: next(now)}))

    measured = perf.Measured(Interrupts())
    for each in range(100):
        measured.answer(each * 10 + 10 - (each + 1), 2**20, None, None)
    measured.answer(0, 5, None, ValueError("not appended"))

    assert measured.figures() == {
        "record_count": 100, "seconds": 1.0, "records_per_s": 100, "mb_per_s": 100,
        "average_ms": 50.5, "p50_ms": 51, "p95_ms": 96, "p99_ms": 100, "max_ms": 100,
    }  # fmt: skip
    assert str(measured.error) == "not appended"


@pytest.mark.parametrize("action", ["produce --num-records 1 --record-size 1", "consume"])
def test_a_topic_that_is_not_there_is_refused(call, action):
    assert "no topic 'nowhere'" in call.refused("perf", *action.split(), "--topic", "nowhere")


def test_a_record_that_the_topic_does_not_take_is_refused(call, new_topic):
    asked = ["--topic", new_topic(), "--num-records", 2, "--record-size", 2 * 2**20]

    assert "max.message.bytes" in call.refused("perf", "produce", *asked)


def test_a_record_that_fails_ends_it(call, new_topic, cluster, monkeypatch):
    topic, answer = new_topic(), perf.Measured.answer

    def failed(measured, *given):
        answer(measured, *given[:-1], InvalidRequestError("not appended"))

    monkeypatch.setattr(perf.Measured, "answer", failed)
    asked = ["--num-records", 300, "--record-size", 10, "--throughput", 100]

    assert "not appended" in call.refused("perf", "produce", "--topic", topic, *asked)
    assert cluster.count(topic) < 300


def test_an_interrupt_shows_what_was_measured(call, new_topic, cluster):
    topic = new_topic()
    asked = ["--num-records", 10**6, "--record-size", 10, "--throughput", 50]
    process = call.start("perf", "produce", "--topic", topic, *asked, stdout=PIPE, stderr=PIPE)
    while not cluster.count(topic):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate()

    assert (process.returncode, complaint) == (130, "kafka-on-spark: interrupted\n")
    assert f"record count   {cluster.count(topic)}\n" in said
    assert re.search(r"^p99 ms +\d", said, re.M)
    assert cluster.count(topic) <= 50 * float(re.search(r"^seconds +(.*)", said, re.M)[1]) + 2
