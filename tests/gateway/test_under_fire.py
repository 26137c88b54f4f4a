"""Two gateways that are killed and frozen, and disks that are away, under producers and a group of four
kinds of clients: each acknowledged record stands once, in its order, and is read."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from functools import partial

import confluent_kafka
import pytest

from kafka_on_spark import Cluster
from tests.cluster.serving.processes import wait_for
from tests.gateway.test_groups import READERS, Reader

SECONDS = float(os.environ.get("UNDER_FIRE_SECONDS", "40"))
TOPIC = "fire"
KEYS = 5

pytestmark = pytest.mark.long


class Served:
    """A process of `serve`, which is started again when it is killed."""

    def __init__(self, root, folder, name, *options):
        self._command = [
            sys.executable,
            "-m",
            "kafka_on_spark.cli",
            "serve",
            "--cluster",
            str(root),
        ]
        self._command += options
        self._log = (folder / f"{name}.log").open("ab")
        self.start()

    def start(self):
        self._process = subprocess.Popen(self._command, stdout=self._log, stderr=self._log)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def end(self):
        self.kill()
        self._log.close()

    def freeze(self, seconds):
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)


class Sender(threading.Thread):
    """Sends numbers under some keys, each key's in order; `acked` are those that stand."""

    def __init__(self, name, servers):
        super().__init__(daemon=True)
        self.name, self.acked, self.failed = name, [], []
        self.ended = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": 110_000,
            }
        )
        self.start()

    def run(self):
        number = 0
        while not self.ended.wait(0.002):
            value = f"{self.name} {number}"
            self._producer.produce(
                TOPIC, value, f"{self.name} {number % KEYS}", on_delivery=self._delivered
            )
            self._producer.poll(0)
            number += 1
        self.left = self._producer.flush(115)

    def _delivered(self, error, message):
        (self.failed if error else self.acked).append((message.value().decode(), error))


def free_ports(count):
    taken = [socket.socket() for _ in range(count)]
    for each in taken:
        each.bind(("127.0.0.1", 0))
    found = [each.getsockname()[1] for each in taken]
    for each in taken:
        each.close()
    return found


def answers(address):
    host, port = address.split(":")
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection((host, port)):
        return True


def torment(gateways, brokers):
    """Do harm, one thing at a time; return what was done."""
    rng, done, until = random.Random(7), Counter(), time.monotonic() + SECONDS
    while time.monotonic() < until:
        kind, gateway = rng.choice(["kill", "freeze", "disk"]), rng.choice(gateways)
        done[kind] += 1
        if kind == "disk":
            root = brokers[rng.choice([1, 2, 3])]
            root.rename(root.with_name("away"))
            time.sleep(rng.uniform(0.5, 6))
            root.with_name("away").rename(root)
        elif kind == "kill":
            gateway.kill()
            time.sleep(rng.uniform(0, 2))
            gateway.start()
        else:
            gateway.freeze(rng.uniform(0.5, 4))
        time.sleep(rng.uniform(0.5, 3))
    return done


@pytest.fixture
def ended(tmp_path):
    """What a run has left: what was done, senders, the log's values, what each value was read, and
    what fsck finds."""
    brokers = {each: tmp_path / str(each) for each in (1, 2, 3)}
    configs = {
        "min.insync.replicas": "2",
        "retention.ms": "-1",
        "broker.session.timeout.ms": "4000",
        "group.consumer.session.timeout.ms": "10000",
        "group.consumer.heartbeat.interval.ms": "1000",
    }
    with Cluster.create(tmp_path / "metadata", brokers, configs=configs) as cluster:
        cluster.create_topic(TOPIC, partitions=4, replication_factor=3)
        addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
        served = [Served(cluster.root, tmp_path, "control")]
        for each in addresses:
            more = ("--kafka", each, "--only", "kafka")
            served.append(Served(cluster.root, tmp_path, f"gateway-{each[-5:]}", *more))
        for each in addresses:
            wait_for(partial(answers, each))
        servers = ",".join(addresses)
        senders = [Sender(each, servers) for each in ("a", "b")]
        readers = [Reader(each, servers, TOPIC, "group") for each in READERS.values()]
        done = torment(served[1:], brokers)
        for each in senders:
            each.ended.set()
            each.join(120)
        values = [each["value"].decode() for each in cluster.read(TOPIC).to_pylist()]
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not {*values} <= read_by(readers).keys():
            time.sleep(0.2)
        read = read_by(readers)
        for each in readers:
            each.end()
        for each in served:
            each.end()
        yield done, senders, values, read, cluster.fsck().findings


def read_by(readers):
    return Counter(value.decode() for each in readers for value in list(each.found))


def test_nothing_is_lost_doubled_or_out_of_order(ended):
    done, senders, values, read, findings = ended

    assert done.keys() == {"kill", "freeze", "disk"}
    acked = [value for each in senders for value, _ in each.acked]
    assert len(acked) > 1000
    counts = Counter(values)
    assert [value for value in acked if counts[value] != 1] == []
    assert [value for value, count in counts.items() if count > 1] == []
    by_key = defaultdict(list)
    for value in values:
        name, number = value.split()
        by_key[name, int(number) % KEYS].append(int(number))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    assert [value for value in values if value not in read] == []
    assert findings == ()
