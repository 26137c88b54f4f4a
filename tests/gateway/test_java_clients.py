"""Kafka's own tools, and Spark's Kafka connector, against a gateway.

fetch="mvn -B -q -f tests/gateway/pom.xml dependency:copy-dependencies"
$fetch -Ptools -DoutputDirectory=FOLDER/tools
$fetch -Pspark -DoutputDirectory=FOLDER/spark
KAFKA_JARS=FOLDER ./spark-submit.sh pytest --long tests/gateway/test_java_clients.py
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

JARS = Path(os.environ.get("KAFKA_JARS", "/nowhere"))

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not JARS.exists(), reason="KAFKA_JARS names no folder with Kafka's jars"),
]

TOOLS = "org.apache.kafka.tools"


def command(tool, *arguments):
    return [
        "java",
        "-Xmx256m",
        "-cp",
        f"{JARS / 'tools'}/*",
        tool if tool.startswith("kafka.") else f"{TOOLS}.{tool}",
        *map(str, arguments),
    ]


def run(tool, *arguments, given=""):
    """Return what a tool prints; it must end well."""
    done = subprocess.run(
        command(tool, *arguments),
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


@pytest.fixture
def server(gateway):
    return ("--bootstrap-server", f"{gateway.host}:{gateway.port}")


def test_the_console_producer_and_consumer(cluster, topic, server):
    given = [str(each) for each in range(500)]

    run("ConsoleProducer", *server, "--topic", topic, given="\n".join(given))
    read = run(
        "consumer.ConsoleConsumer",
        *server,
        "--topic",
        topic,
        "--from-beginning",
        "--max-messages",
        500,
        "--group",
        topic,
    )

    assert sorted(read.split(), key=int) == given
    assert sum(each.lag for each in cluster.describe_group(topic)) == 0


def test_a_console_consumer_of_the_consumer_protocol(cluster, topic, server):
    cluster.append(topic, [{"key": str(each), "value": str(each)} for each in range(500)])
    consumer = subprocess.Popen(
        command(
            "consumer.ConsoleConsumer",
            *server,
            "--topic",
            topic,
            "--from-beginning",
            "--group",
            topic,
            "--command-property",
            "group.protocol=consumer",
        ),
        stdout=subprocess.PIPE,
        text=True,
    )
    describe = "consumer.group.ConsumerGroupCommand", *server, "--describe", "--group", topic
    try:
        read = [consumer.stdout.readline().strip() for _ in range(500)]
        described = [
            run(*describe, *how).split() for how in (["--members", "--verbose"], ["--state"])
        ]
    finally:
        consumer.terminate()
        consumer.communicate(timeout=60)

    assert sorted(read, key=int) == [str(each) for each in range(500)]
    members, state = described
    assert members[-6:] == ["console-consumer", "2", "1", f"{topic}:0,1", "1", f"{topic}:0,1"]
    assert state[-3:] == ["uniform", "Stable", "1"]
    assert topic not in cluster.image.consumer_groups  # it has left
    assert sum(each.lag for each in cluster.describe_group(topic)) == 0


def test_the_verifiable_producer_and_consumer(topic, server):
    sent = [
        json.loads(each)
        for each in run(
            "VerifiableProducer", *server, "--topic", topic, "--max-messages", 1000
        ).splitlines()
    ]
    read = run(
        "VerifiableConsumer",
        *server,
        "--topic",
        topic,
        "--group-id",
        topic,
        "--max-messages",
        1000,
        "--reset-policy",
        "earliest",
    )

    assert sent[-1]["acked"] == 1000
    consumed = [
        each for each in map(json.loads, read.splitlines()) if each["name"] == "records_consumed"
    ]
    assert sum(each["count"] for each in consumed) == 1000


def test_the_perf_tests(topic, gateway, server):
    sent = run(
        "ProducerPerformance",
        "--topic",
        topic,
        "--num-records",
        20_000,
        "--record-size",
        100,
        "--throughput",
        -1,
        "--producer-props",
        f"bootstrap.servers={gateway.host}:{gateway.port}",
    )
    read = run(
        "ConsumerPerformance", *server, "--topic", topic, "--messages", 20_000, "--group", topic
    )

    assert "20000 records sent" in sent
    assert int(read.splitlines()[-1].split(",")[4]) >= 20_000


def test_sparks_kafka_connector_reads_row_for_row_and_appends(cluster, topic, gateway):
    numbers = range(200)
    cluster.append(
        topic,
        [{"key": str(n), "value": f"v{n}", "headers": [("h", b"x")]} for n in numbers],
    )
    cluster.create_topic(f"{topic}-copy", partitions=2, replication_factor=3)
    script = Path(__file__).with_name("spark_connector.py")
    jars = ",".join(map(str, sorted((JARS / "spark").glob("*.jar"))))

    done = subprocess.run(
        [sys.executable, script, f"{gateway.host}:{gateway.port}", topic, jars],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    rows = [tuple(each) for each in json.loads(done.stdout.splitlines()[-1])]
    assert rows == [
        (
            each["partition"],
            each["offset"],
            each["key"].decode(),
            each["value"].decode(),
            round(each["timestamp"].timestamp() * 1000),
            each["timestampType"],
            [[h["key"], h["value"].decode()] for h in each["headers"]],
        )
        for each in cluster.read(topic).to_pylist()
    ]
    # A batch has appended them, and then a stream.
    copied = [each["value"] for each in cluster.read(f"{topic}-copy").to_pylist()]
    assert sorted(copied) == sorted(f"v{n}".encode() for n in [*numbers, *numbers])


GROUPS = "consumer.group.ConsumerGroupCommand"
REASSIGN = "reassign.ReassignPartitionsCommand"
CONFIGS = "kafka.admin.ConfigCommand"

ADMIN_TOOLS = [
    ("TopicCommand", "--create --topic T --partitions 2 --replication-factor 3", "Created topic T"),
    ("TopicCommand", "--list", r"^T$"),
    ("TopicCommand", "--alter --topic T --partitions 3", ""),
    ("TopicCommand", "--describe --topic T", r"PartitionCount: 3\s+ReplicationFactor: 3"),
    (CONFIGS, "--alter --entity-type topics --entity-name T --add-config retention.ms=-1", "Comp"),
    (CONFIGS, "--describe --entity-type topics --entity-name T", "retention.ms=-1"),
    (CONFIGS, "--alter --entity-type topics --entity-name T --delete-config retention.ms", "Comp"),
    (CONFIGS, "--describe --entity-type brokers --entity-default", "retention.ms=-1"),
    ("ConsoleProducer", "--topic T", ""),
    ("GetOffsetShell", "--topic T --time -1", r"T:[0-2]:5"),
    ("TransactionsCommand", "describe-producers --topic T --partition P", r"^\d+\s+0\s+-1\s+4\s"),
    ("LogDirsCommand", "--describe --topic-list T", r'"partition":"T-P","size":[1-9]'),
    (REASSIGN, "--execute --reassignment-json-file F", '"log_dirs":.*Successfully started'),
    (REASSIGN, "--list", r"Current partition reassignments:\s+T-P: replicas: .*removing"),
    (REASSIGN, "--verify --reassignment-json-file F", "T-P is completed"),
    ("LeaderElectionCommand", "--election-type preferred --topic T --partition P", "T-P"),
    ("LeaderElectionCommand", "--election-type unclean --all-topic-partitions", ""),
    ("MetadataQuorumCommand", "describe --status", r"LeaderId: +1\b"),
    ("MetadataQuorumCommand", "describe --replication", r"\bLeader\b"),
    ("consumer.ConsoleConsumer", "--topic T --from-beginning --max-messages 5 --group T", "^4$"),
    (GROUPS, "--list", r"^T$"),
    (GROUPS, "--describe --group T", r"^T +T +P +5 +5 +0 "),
    (GROUPS, "--describe --group T --members", "#PARTITIONS"),
    (GROUPS, "--reset-offsets --to-earliest --execute --group T --topic T:P", r"^T +T +P +0$"),
    (GROUPS, "--delete-offsets --group T --topic T:P", r"^T +P +Successful"),
    (GROUPS, "--delete --group T", "was successful"),
    ("DeleteRecordsCommand", "--offset-json-file F", r"T-P\s+low_watermark: 2"),
    ("ClusterTool", "cluster-id", "Cluster ID: "),
    ("ClusterTool", "list-endpoints", r"^1000000 "),
    ("BrokerApiVersionsCommand", "", r"DescribeLogDirs\(35\): 1 to 4 \[usable: 4\]"),
    ("TopicCommand", "--delete --topic T", ""),
]
"""Tool, arguments, and what it prints. T is a topic's name, P its partition that has five records,
F a file that names both."""


def test_the_admin_tools(cluster, topic, server, tmp_path):
    name, file = f"{topic}-admin", tmp_path / "partitions.json"
    values = {"T": name, "P": "0", "F": str(file)}
    for tool, arguments, printed in ADMIN_TOOLS:
        if "--verify" in arguments:
            while cluster.reassignments():
                cluster.replicate()
                cluster.run_controller()
        if "F" in arguments:
            given = {"topic": name, "partition": int(values["P"]), "replicas": [2, 1], "offset": 2}
            file.write_text(json.dumps({"version": 1, "partitions": [given]}))
        words = [re.sub(r"\b[TPF]\b", lambda m: values[m[0]], each) for each in arguments.split()]
        at = 1 if tool == "ClusterTool" else 0  # after its command; others want it before

        found = run(tool, *words[:at], *server, *words[at:], given="\n".join("01234"))

        if tool == "ConsoleProducer":  # five records without keys go to one partition
            values["P"] = next(
                str(n) for n, each in cluster.offsets(name).items() if each.high_watermark
            )
        pattern = re.sub(r"\b[TPF]\b", lambda m: values[m[0]], printed)
        assert re.search(pattern, found, re.MULTILINE | re.DOTALL), (tool, arguments, found)
    assert name not in cluster.image.topic_ids
