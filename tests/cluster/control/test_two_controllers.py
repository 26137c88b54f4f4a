"""Several controllers at once, real processes on real tables: no decision is lost or made twice.

Some seconds in CI; a minute: ``pytest tests/cluster --controllers-seconds 60``.
"""

import logging
import time
from collections import Counter

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.metadata.cluster_roots import DeltaMetadataLog
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import (
    AdminRequestRecord,
    AdminResultRecord,
    ControllerRecord,
    TopicRecord,
)
from kafka_on_spark.store.roots import StorageOptions
from tests.cluster.conftest import CONTROLLERS_SECONDS
from tests.cluster.control.controllers import others
from tests.cluster.disks import new_disks

log = logging.getLogger(__name__)

LEASE_S = 1.0
OUTCOMES = {"response", "refused", "withdrawn"}
WAIT_S_MAX = 600  # on a machine that has much else to do, four processes take minutes to start
CONFIGS = {
    "controller.lease.ms": int(LEASE_S * 1000),
    "broker.heartbeat.interval.ms": 100,
    # A process that asks a controller waits for another process, which a busy machine may starve.
    "delivery.timeout.ms": 120_000,
}


@pytest.fixture
def disks():
    with new_disks(configs=CONFIGS) as disks:
        yield disks


@pytest.fixture
def seconds(request):
    return request.config.getoption("--controllers-seconds", CONTROLLERS_SECONDS)


def batches_of(disks):
    return DeltaMetadataLog(str(disks.metadata_root), StorageOptions()).read(from_offset=0)


def wait_for(condition):
    until = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < until:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("waited in vain")


def holder(cluster, processes):
    lease = cluster.image.controller
    if lease is None or lease.controller_id is None:
        return None
    return next((each for each in processes if f"-{each.pid}-" in lease.controller_id), None)


def frozen_holder(cluster, processes):
    """Freeze the process that holds the lease, in the middle of its term; return it.

    One that has resigned between the look at the log and the signal would not be one: it is let go.
    """
    while True:
        found = wait_for(lambda: holder(cluster, processes))
        found.freeze()
        if holder(cluster, processes) is found:
            return found
        found.thaw()


def check_log(batches):
    """Check that no epoch was committed in after a higher one was claimed, that no epoch has two
    owners, and that each request has one result at most, and not before it. Return the owners."""
    claimed, owners = -1, {}
    pending, answered = set(), Counter()
    for batch in batches:
        stamped = batch.stamp.controller_epoch
        assert stamped is None or stamped >= claimed, batch
        for record in batch.records:
            if isinstance(record, ControllerRecord):
                claimed = max(claimed, record.controller_epoch)
                owner = owners.setdefault(record.controller_epoch, record.controller_id)
                assert owner == record.controller_id
            elif isinstance(record, AdminRequestRecord):
                pending.add(record.request)
            elif isinstance(record, AdminResultRecord):
                assert record.request in pending
                answered[record.request] += 1
    assert set(answered.values()) <= {1}
    return owners


def check_told(batches, told):
    created = Counter(
        record.topic for batch in batches for record in batch.records if type(record) is TopicRecord
    )
    topics = MetadataImage().replay(*batches).topics.values()
    present = {topic.name: topic for topic in topics}
    deleted = {each["topic"] for each in told if each["verb"] == "delete" and "response" in each}
    for each in told:
        if each["verb"] != "create":
            continue
        name = each["topic"]
        if "response" in each:
            assert created[name] == 1, name
            assert (name in present) == (name not in deleted), name
            if name in present:
                assert present[name].topic_id == each["response"]
        elif "withdrawn" in each:
            winners = [other for other in told if other["topic"] == name and "response" in other]
            assert created[name] == bool(winners), name
        else:
            assert each["refused"] == "TopicAlreadyExistsError", each
            assert name.startswith("shared-")
    for each in told:
        name = each["topic"]
        if each["verb"] == "alter" and "response" in each and name in present:
            assert present[name].configs["retention.ms"] == name.split("-")[-1]


def harm(disks, controllers, seconds):
    """Freeze who holds the lease until another does, with a broker's root away meanwhile; let it
    go on as a zombie; then kill who holds the lease. Return the zombie."""
    cluster = disks.cluster
    zombie = frozen_holder(cluster, controllers)
    epoch = cluster.image.controller.controller_epoch
    wait_for(lambda: cluster.image.controller.controller_epoch > epoch)
    disks.take_away(3)
    time.sleep(LEASE_S)
    disks.give_back(3)
    zombie.thaw()
    time.sleep(seconds / 3)
    wait_for(lambda: holder(cluster, controllers)).kill()
    return zombie


def test_two_controllers_and_two_callers_at_once_lose_no_decision(disks, seconds):
    root = disks.metadata_root
    with others(root, "control", "control", seconds=WAIT_S_MAX) as controllers:
        wait_for(lambda: holder(disks.cluster, controllers))  # else nobody has to be asked
        with others(root, "command", "command", seconds=seconds) as commanders:
            zombie = harm(disks, controllers, seconds)
            lines = [line for commander in commanders for line in commander.lines()]
            told = [each for each in lines if "verb" in each]
        for each in controllers:
            each.stop()
        stopped = [each["stopped"] for each in zombie.lines() if "stopped" in each]

    batches = batches_of(disks)
    owners = check_log(batches)
    check_told(batches, told)
    assert stopped, "the zombie was let go on"
    assert "taken over" in stopped[0] or "controls the cluster" in stopped[0]
    assert len(set(owners.values())) >= 2
    assert sum("response" in each for each in told) >= 20
    assert any(isinstance(each, AdminResultRecord) for batch in batches for each in batch.records)
    outcomes = Counter(next(iter(each.keys() & OUTCOMES)) for each in told)
    slowest = max(each["seconds"] for each in told)
    log.info("%s controllerships, commands: %s, slowest %.1f s", len(owners), outcomes, slowest)
    with Cluster.open(disks.metadata_root) as opened:
        opened.run_controller()
        assert opened.image.requests == ()
        assert opened.image.eligible_brokers() == {1, 2, 3}
        assert opened.fsck().findings == ()
