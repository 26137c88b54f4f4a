"""A console of a real cluster, asked as any client may ask it."""

import base64
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.console.console import Console
from tests.cluster.disks import new_disks, records
from tests.console.browsers import console_of

REPOSITORY = Path(__file__).parents[2]
WAIT_S = 60


class Asking:
    def __init__(self, address):
        self.base, self.token = address.split("/#token=")

    def open(self, path, **headers):
        given = {"Authorization": f"Bearer {self.token}", **headers}
        request = urllib.request.Request(f"{self.base}/{path}", headers=given)
        return urllib.request.urlopen(request, timeout=WAIT_S)

    def view(self, path):
        with self.open(f"api/{path}") as answer:
            return json.load(answer)

    def refused(self, path, **headers):
        with pytest.raises(urllib.error.HTTPError) as found:
            self.open(path, **headers)
        with found.value as error:
            return error.code, error.read().decode()


@pytest.fixture(scope="module")
def disks():
    with new_disks(racks={1: "a", 2: "b", 3: "c"}) as disks:
        disks.cluster.create_topic("orders", partitions=2, replication_factor=3)
        for number in range(5):
            disks.cluster.append("orders", records(b'{"n": %d}' % number, key=b"k"))
        yield disks


@pytest.fixture(scope="module")
def asking(disks):
    with console_of(disks.cluster) as address:
        yield Asking(address)


def test_every_view_of_a_cluster_is_answered(asking, disks):
    [full] = [n for n, each in disks.cluster.offsets("orders").items() if each.high_watermark]
    disks.cluster.alter_group_offsets("billing", {("orders", full): 2})

    assert len(asking.view("topic?name=orders")["configs"]) == 0
    [group] = asking.view("groups")["groups"]
    assert group["topics"][0]["lag"] == 3
    assert asking.view("group?name=billing")["places"][0][-1] == 3
    assert asking.view("what-if?brokers=1,2")["brokers"] == [1, 2]
    assert asking.view("timeline?topic=orders&partition=0")["laneCount"] == 1
    assert asking.view("moments")["moments"][-1][0] <= disks.cluster.image.offset


def test_records_are_found_by_offset_by_time_and_by_key(asking, disks):
    [full] = [n for n, each in disks.cluster.offsets("orders").items() if each.high_watermark]
    path = f"messages?topic=orders&partition={full}"

    def values(found):
        return [
            json.loads(base64.b64decode(each["value"]["base64"]))["n"] for each in found["records"]
        ]

    assert values(asking.view(f"{path}&count=2")) == [3, 4]
    assert values(asking.view(f"{path}&offset=1&count=2")) == [1, 2]
    third = asking.view(f"{path}&offset=2&count=1")["records"][0]["timeMs"]
    assert values(asking.view(f"{path}&time={third}"))[-1] == 4
    assert values(asking.view(f"{path}&time={third + 10**9}")) == []
    by_key = asking.view("messages?topic=orders&key=k&count=3")
    assert (by_key["partition"], values(by_key)) == (full, [2, 3, 4])
    assert values(asking.view("messages?topic=orders&key=other")) == []
    older = asking.view(f"messages?topic=orders&key=k&before={by_key['start']}")
    assert older["isLookedThrough"]


def test_the_past_is_shown_with_what_was_committed_then(asking, disks):
    [full] = [n for n, each in disks.cluster.offsets("orders").items() if each.high_watermark]
    offset = next(
        each.end_offset
        for each in disks.cluster._node.metadata.history()
        if any(getattr(record, "high_watermark", None) == 2 for record in each.records)
    )

    past = asking.view(f"grid?at={offset}")
    found = asking.view(f"messages?topic=orders&partition={full}&at={offset}")

    assert past["offset"] == offset
    marks = {row[1]: row[7] for row in past["rows"]}
    assert marks[full] == 2
    assert len(found["records"]) == 2


def test_of_a_topic_that_was_deleted_after_a_moment_no_records_are_found(asking, disks):
    disks.cluster.create_topic("prices", partitions=1, replication_factor=3)
    offset = disks.cluster.image.offset
    disks.cluster.delete_topic("prices")

    status, said = asking.refused(f"api/messages?topic=prices&at={offset}")

    assert status == 404
    assert "prices-0 has been deleted since" in said


def test_what_can_not_be_shown_is_a_sentence(asking):
    assert asking.refused("api/topic?name=none")[0] == 404
    assert asking.refused("api/group?name=none")[0] == 404
    assert "whole number" in asking.refused("api/grid?at=x")[1]
    assert asking.refused("api/grid?at=999999")[0] == 400
    assert "missing" in asking.refused("api/messages")[1]
    assert asking.refused("api/what-if?brokers=9")[0] in (400, 503)


def test_nobody_gets_anything_without_the_token_or_by_another_name(asking):
    assert asking.refused("api/grid", Authorization="")[0] == 401
    assert asking.refused("api/events", Authorization="Bearer x")[0] == 401
    assert asking.refused("", Host="evil.example")[0] == 421
    assert asking.refused("..%2f..%2fpyproject.toml")[0] == 404
    with asking.open("", Authorization="") as answer:
        assert "require-trusted-types-for" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"


def test_a_commit_is_told_to_all_who_listen(asking, disks):
    while asking.view("grid")["offset"] != disks.cluster.image.offset:
        time.sleep(0.01)  # what other tests committed is told first
    with asking.open("api/events") as first, asking.open("api/events") as second:
        hellos = [_event(each) for each in (first, second)]
        disks.cluster.append("orders", records(b"more", key=b"k"))
        told = [_event(each, "commit") for each in (first, second)]

    assert [name for name, _ in hellos] == ["hello", "hello"]
    for _, event in told:
        assert event["before"] == hellos[0][1]["offset"]
        assert event["concerns"] == ["partitions"]
        assert [row[7] > 0 for row in event["rows"]] == [True]


def _event(stream, wanted=None):
    while True:
        name = stream.readline().decode().strip().removeprefix("event: ")
        data = stream.readline().decode().strip().removeprefix("data: ")
        stream.readline()
        if name and (wanted is None or name == wanted):
            return name, json.loads(data)


def test_a_port_that_is_taken_is_told(disks, asking):
    port = int(asking.base.rsplit(":", 1)[1])

    with pytest.raises(InvalidRequestError, match="give another --port"):
        Console(disks.cluster, port=port)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_prints_the_address_and_ends_when_it_is_told_to(disks, number):
    command = [sys.executable, "-m", "kafka_on_spark.cli", "console", "--cluster"]
    process = subprocess.Popen(
        [*command, str(disks.metadata_root)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    try:
        asking = Asking(process.stdout.readline().strip())
        with asking.open("api/events") as stream:
            _event(stream)
            process.send_signal(number)
            assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


HANGS = """
import threading
from kafka_on_spark.cli.application import main
from kafka_on_spark.cli import serve
from kafka_on_spark.cluster import Cluster
from kafka_on_spark.console import answers
from kafka_on_spark.console import following

def hang(*_, **__):
    print("hangs", flush=True)
    threading.Event().wait()

{}
main()
"""


@contextmanager
def hanging_console(disks, patches):
    """Give the process of a console of which a part hangs, once it says so, and its address."""
    command = [sys.executable, "-c", HANGS.format(patches), "console", "--cluster"]
    process = subprocess.Popen(
        [*command, str(disks.metadata_root)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process, Asking(process.stdout.readline().strip())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def ask_and_forget(asking, path):
    host = asking.base.removeprefix("http://")
    asked = socket.create_connection(host.split(":"))
    head = f"GET /api/{path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {asking.token}"
    asked.sendall(f"{head}\r\n\r\n".encode())
    return asked


@pytest.mark.parametrize(
    "patches, path",
    [
        ("following.Follower._say_trouble = hang", "grid"),
        ("answers.forecast = Cluster.close = hang", "what-if?brokers=1"),
    ],
)
def test_the_command_ends_whatever_hangs(disks, patches, path):
    with hanging_console(disks, patches) as (process, asking), ask_and_forget(asking, path):
        assert process.stdout.readline() == "hangs\n"
        process.send_signal(signal.SIGTERM)

        assert process.wait(WAIT_S) == 0
