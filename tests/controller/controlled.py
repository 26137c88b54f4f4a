"""Processes on one metadata log in memory and one clock, one of which may control the cluster."""

import random
from itertools import count

from kafka_on_spark.base.ids import BrokerEpoch, BrokerId, IdSource
from kafka_on_spark.controller.commands import (
    CREATE_TOPIC,
    Request,
    request_record,
    run_command,
)
from kafka_on_spark.controller.controller_loop import ControllerLoop
from kafka_on_spark.controller.lease import Term
from kafka_on_spark.controller.probes import ProbeResult, probe_task
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.records import BrokerRecord, BrokerState
from tests.fakes import FakeClock, MemoryMetadataLog
from tests.nodes import node_of

LEASE_MS = 10_000
TIMEOUT_MS = 60_000


class World:
    """Processes on one log and one clock; while one waits, another may do something."""

    def __init__(self):
        self.log = MemoryMetadataLog()
        self.clock = FakeClock()
        self._ids = count()
        self.metadata().submit(
            lambda image: ControllerResult(
                [
                    BrokerRecord(
                        broker_id=BrokerId(1),
                        broker_epoch=BrokerEpoch(0),
                        root="memory://1",
                        rack=None,
                        directory_id="disk1",
                        broker_state=BrokerState.ACTIVE,
                    )
                ],
                None,
            ),
            timeout_ms=1000,
        )

    def metadata(self, clock=None):
        service = MetadataService(self.log, clock or self.clock, random=lambda: 0.5)
        service.catch_up()
        return service

    @property
    def id_source(self):
        return IdSource(lambda: f"{next(self._ids):032x}", random.Random(0).randrange)

    def process(self, name):
        return self.process_with(self.metadata(), name)

    def process_with(self, metadata, name="me"):
        node = node_of(metadata, self.clock)
        node.controller_id, node.ids = name, self.id_source
        return node

    def controller(self, name="active", clock=None):
        metadata = self.metadata(clock)
        term = Term.claim(
            metadata,
            self.clock,
            controller_id=name,
            seen=metadata.image.controller,
            timeout_ms=1000,
        )
        assert term is not None
        return term

    def loop(self, name):
        metadata = self.metadata()
        node = node_of(metadata, self.clock, new_uuid=self.id_source.new_uuid)
        node.controller_id = name
        loop = ControllerLoop(node, dry_run=metadata)
        loop._node.tasks.given[probe_task] = lambda orders: [
            ProbeResult(each.broker_id, 0) for each in orders
        ]
        return loop

    def while_waiting(self, act):
        """Have `act` done once, when somebody sleeps next."""

        def once():
            self.clock.on_sleep = lambda: None
            act()

        self.clock.on_sleep = once

    @property
    def image(self):
        return MetadataImage().replay(*self.log.batches)

    def kinds(self, since=1):
        return [
            [type(record).__name__ for record in batch.records]
            for batch in self.log.batches[since:]
        ]


def create(name, **configs):
    """Return the command that creates a topic, and its arguments."""
    return CREATE_TOPIC, {
        "name": name,
        "partition_count": 1,
        "replication_factor": 1,
        "replica_assignment": None,
        "configs": configs,
    }


def run(process, order, timeout_ms=TIMEOUT_MS):
    process.timeout_ms = timeout_ms
    command, arguments = order
    return run_command(process, command, **arguments)


def pending(world, order, *, timeout_ms=TIMEOUT_MS, asked_by="dead"):
    """Have a request pending that nobody waits for any more."""
    command, arguments = order
    request = Request(
        command=command,
        arguments=arguments,
        asked_by=asked_by,
        timeout_ms=timeout_ms,
        deadline_at_ms=world.clock.now_ms() + timeout_ms,
    )
    record = request_record(request, world.id_source.new_uuid())
    world.metadata().submit(lambda image: ControllerResult([record], None), timeout_ms=1000)
    return record


def commit(world, *records):
    world.metadata().submit(lambda image: ControllerResult(records, None), timeout_ms=1000)
