"""What a call of the command line imports while somebody waits for it, in a process of its own."""

import os
import subprocess
import sys

import pytest

from tests.cli.conftest import ROOT

CALL = """
import sys
from kafka_on_spark.cli import main

try:
    main()
finally:
    sys.stderr.write(" ".join(sys.modules))
"""
FOREIGN = {
    "asyncio",
    "deltalake",
    "fsspec",
    "pandas",
    "pyarrow.dataset",
    "pyspark",
    "rich",
    "uvicorn",
}
KEEPING = {
    "kafka_on_spark.controller.controller_loop",
    "kafka_on_spark.fsck.cluster_audit",
    "kafka_on_spark.controller.replication_round",
    "kafka_on_spark.log.compactor",
}
OTHER_VERBS = {
    "kafka_on_spark.cli.dry_run",
    "kafka_on_spark.cli.serve",
    "kafka_on_spark.cli.reassignment",
}
APPENDING = {"kafka_on_spark.produce.staging"}
CONSUMING = {"kafka_on_spark.consume.consumer", "kafka_on_spark.log.reading"}
NOT_NEEDED = FOREIGN | KEEPING | OTHER_VERBS


def imported(call, *arguments, lines=b""):
    done = subprocess.run(
        [sys.executable, "-c", CALL, *arguments],
        input=lines,
        env=os.environ | {"KAFKA_ON_SPARK_CLUSTER": call.root, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return set(done.stderr.decode().split())


@pytest.mark.parametrize("lines", [b"", b"a\nb\n"], ids=["nothing", "records"])
def test_produce_imports_only_what_appends(call, new_topic, lines):
    topic = new_topic(b"a")

    modules = imported(call, "produce", "--topic", topic, lines=lines)

    assert "kafka_on_spark.cli.produce" in modules
    assert (NOT_NEEDED | CONSUMING) & modules == set()


def test_consume_imports_only_what_reads(call, new_topic):
    topic = new_topic(b"a")

    modules = imported(call, "consume", "--topic", topic, "--offset", "0", "--max-messages", "1")

    assert "kafka_on_spark.cli.consume" in modules
    assert (NOT_NEEDED | APPENDING) & modules == set()


def test_the_version_is_said_without_any_verb():
    done = subprocess.run(
        [sys.executable, "-c", CALL, "--version"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )

    assert done.stdout.startswith(b"kafka-on-spark ")
    assert {"kafka_on_spark.cluster", *NOT_NEEDED} & set(done.stderr.decode().split()) == (set())


def test_importing_the_package_imports_little_else():
    program = "import sys, kafka_on_spark; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )

    ours = {each for each in done.stdout.decode().split() if each.startswith("kafka_on_spark.")}
    assert ours == {"kafka_on_spark.base"}
