"""The clients, their histories and the checker see what a build without one rule of the protocol
does; of the product they see nothing. In one process, with faults at chosen moments."""

import json
import random
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.consume import reads
from kafka_on_spark.log import fetch, operations
from kafka_on_spark.log.read_order import plan_reads
from kafka_on_spark.log.replicas import ReplicaLog
from kafka_on_spark.log.state import address_of
from kafka_on_spark.log.truncation import latest_epoch_with_records
from kafka_on_spark.produce import append_rounds
from kafka_on_spark.store.roots import StorageOptions
from tests.cluster.disks import Disks, new_disks
from tests.rigs.torturing.checks.anomalies import find_anomalies
from tests.rigs.torturing.checks.facts import facts_of
from tests.rigs.torturing.checks.verdicts import Verdict, false_verdicts, verdicts
from tests.rigs.torturing.clients.appending import AppendingClient
from tests.rigs.torturing.clients.reading import (
    ReadingClient,
    ask_directly,
    by_partition,
    read_directly,
    rows_of,
)
from tests.rigs.torturing.ending import lost_in_tables
from tests.rigs.torturing.folder import PARTITIONS, TOPICS, key_of
from tests.rigs.torturing.history import OK, POLL, HistoryWriter, read_history
from tests.told import actions

APPENDS = 10
TOPIC_PARTITION = (TOPICS[0], 0)


@dataclass
class Stage:
    """A cluster with one client that appends and one that reads."""

    disks: Disks
    folder: Path
    is_answer_lost: bool = False
    before: frozenset[Verdict] = frozenset()
    appending: AppendingClient = field(init=False)
    reading: ReadingClient = field(init=False)

    def __post_init__(self) -> None:
        self.start_client(1)
        self.start_reader(1)

    def start_reader(self, incarnation: int) -> None:
        """Start the client that reads, or the next process of it."""
        reader = HistoryWriter(self.folder, f"reader.{incarnation}")
        read, ends = read_directly(self.cluster), ask_directly(self.cluster)
        self.reading = ReadingClient(read, reader, random.Random(2), ends=ends)

    @property
    def cluster(self) -> Cluster:
        return self.disks.cluster

    def start_client(self, incarnation: int) -> None:
        """Start the client that appends, or the next process of it."""
        before = read_history(self.folder, "client")
        writer = HistoryWriter(self.folder, f"client.{incarnation}")
        self.appending = AppendingClient(
            self.append, writer, random.Random(incarnation), producer_id="p", before=before
        )

    def append(self, topic: str, rows: Any, **options: Any) -> Any:
        records = [{"value": value, "partition": number} for value, number in rows]
        result = self.cluster.append(topic, records, timeout_ms=300, **options)
        if self.is_answer_lost:
            raise KafkaStorageError("the answer was lost")
        return result

    def read_log(self) -> None:
        writer = HistoryWriter(self.folder, "torture.1")
        with Cluster.open(self.disks.metadata_root) as cluster:
            for topic in TOPICS:
                index = writer.invoke(POLL)
                records = by_partition(topic, rows_of(cluster.read(topic)))
                starts = {key_of(topic, number): 0 for number in range(PARTITIONS)}
                writer.complete(
                    index, POLL, OK, assign=-1, starts=starts, records=records, is_final=True
                )

    @property
    def anomalies(self) -> set[str]:
        facts = facts_of(read_history(self.folder))
        false = false_verdicts(self.before, verdicts(self.cluster))
        return {each.name for each in (*find_anomalies(facts), *false)} - {"stuck"}


@pytest.fixture
def stage(tmp_path):
    with new_disks(configs={"min.insync.replicas": "2"}) as disks:
        for topic in TOPICS:
            led_by_1 = {number: [1, 2, 3] for number in range(PARTITIONS)}
            disks.cluster.create_topic(topic, replica_assignment=led_by_1)
        made = Stage(disks, tmp_path)
        for _ in range(APPENDS):
            made.appending.once()
            made.reading.once()
        yield made


def lose_answers(stage):
    """Answers are lost, and a new process of the client repeats what was under way."""
    for incarnation in range(2, 8):
        stage.is_answer_lost = True
        stage.appending.once()
        stage.is_answer_lost = False
        stage.start_client(incarnation)
        stage.appending.once()


def hide_followers(stage):
    """The followers' roots are away for a moment, and nobody has noticed yet."""
    stage.disks.take_away(2, 3)
    for _ in range(4):
        stage.appending.once()
    stage.disks.give_back(2, 3)
    for _ in range(8):
        stage.reading.once()


def lose_what_is_not_committed(stage):
    """The leader alone gets some appends, is read, and loses its replicas."""
    stage.disks.take_away(2, 3)
    for _ in range(2):
        stage.appending.once()
    for _ in range(8):
        stage.reading.once()
    stage.disks.give_back(2, 3)
    for topic in stage.disks.root(1).iterdir():
        if topic.is_dir():
            shutil.rmtree(topic)
    heal(stage)
    stage.before = verdicts(stage.cluster)


def let_errors_pass(stage):
    """A root is away for a moment, twice, while its replicas are inspected."""
    for _ in range(2):
        stage.disks.take_away(2)
        stage.cluster.replicate(is_sweep=True)
        stage.disks.give_back(2)
    heal(stage)


def heal(stage):
    for _ in range(3):
        stage.cluster.replicate(is_sweep=True)
        stage.cluster.run_controller()


def nothing(*arguments, **named):
    return None


def yes(*arguments, **named):
    return True


def plan_to_the_log_end(image, topic, start=None, end=None):
    """Plan reads as if everything that the leader has were committed."""
    topic_image = image.topic(topic)
    partitions = {}
    for number, partition in topic_image.partitions.items():
        key = PartitionKey(topic_image.topic_id, number)
        address = address_of(image, key, partition, partition.leader)
        state = ReplicaLog(address, StorageOptions(None)).load()
        partitions[number] = replace(
            partition,
            high_watermark=state.log_end_offset,
            high_watermark_epoch=latest_epoch_with_records(state),
            high_watermark_chain=state.chain_digest,
        )
    changed = replace(topic_image, partitions=partitions)
    topics = {**image.topics, topic_image.topic_id: changed}
    return plan_reads(replace(image, topics=topics), topic, start, end)


# fmt: off
BROKEN = [
    (lose_answers,               "duplicate",     [(operations, "find_append", nothing)]),
    (hide_followers,             "stale-end",     [(append_rounds, "is_acknowledged", yes)]),
    (lose_what_is_not_committed, "vanished",
     [(reads, "plan_reads", plan_to_the_log_end)]),
    (let_errors_pass,            "false-verdict", [(fetch, "is_evidence", yes)]),
]
# fmt: on
IDS = [
    "without deduplication",
    "acknowledged by the leader alone",
    "read above the HW",
    "an error is a verdict",
]


@pytest.mark.parametrize("fault", [row[0] for row in BROKEN])
def test_the_product_shows_no_anomaly(stage, fault):
    fault(stage)

    stage.read_log()

    assert stage.anomalies == set()


@pytest.mark.parametrize("fault,expected,broken", BROKEN, ids=IDS)
def test_a_build_without_one_rule_is_caught(stage, fault, expected, broken):
    with ExitStack() as patches:
        for rule in broken:
            patches.enter_context(patch.object(*rule))
        fault(stage)

    stage.read_log()

    assert expected in stage.anomalies


@pytest.mark.parametrize("place", [0, -1], ids=["first", "last"])
def test_a_table_that_lacks_its_first_or_last_records_is_caught(stage, place):
    heal(stage)
    stage.read_log()
    facts, image = facts_of(read_history(stage.folder)), stage.cluster.image
    roots = [*map(stage.disks.root, image.brokers)]
    assert [*lost_in_tables(roots, image, facts)] == []

    log = stage.disks.folder(2, *TOPIC_PARTITION) / "_delta_log"
    paths = [action["add"]["path"] for action in actions(log) if action.get("add")]
    commit = log / f"{len([*log.glob('*.json')]):020d}.json"
    commit.write_text(json.dumps({"remove": {"path": paths[place]}}))

    (found,) = lost_in_tables(roots, image, facts)
    assert (found.name, found.key) == ("lost-in-table", key_of(*TOPIC_PARTITION))
    assert found.sentence.startswith("broker 2 lacks ")
