"""One variable raises the level of every process, and each says which kind it is."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.disks import new_disks

pytestmark = [pytest.mark.integration, pytest.mark.long]

ROOT = Path(__file__).parents[3]
LINE = re.compile(r"^[-\d]+ [:,\d]+ ([A-Z]+) \[([a-z ]+) (\d+)\] (kafka_on_spark[.\w]*): (.*)$")


def test_one_variable_raises_the_level_of_every_process():
    with new_disks() as disks:
        for name in ("first", "second", "third"):
            disks.cluster.create_topic(name, partitions=1, replication_factor=2)
        disks.cluster.append("first", [("k", "v")] * 3)
        done = subprocess.run(
            [
                sys.executable,
                ROOT / "tests/integration/executors/log_lines.py",
                disks.metadata_root,
                disks.base / "checkpoint",
            ],
            env={**os.environ, "PYTHONPATH": str(ROOT), "KAFKA_ON_SPARK_LOG_LEVEL": "debug"},
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    lines = [match for match in map(LINE.match, done.stderr.splitlines()) if match]
    said = {(match[2], match[4], re.sub(r"\d+", "N", match[5])) for match in lines}
    start = "as committed at metadata offset N"
    expected = {
        ("executor", "kafka_on_spark.storage.staging.staging", "task N has staged N segments"),
        ("executor", "kafka_on_spark.spark.format.source", "reads first-N from N to N"),
        ("commit", "kafka_on_spark.service.append.append_service", "appended N records to second"),
        ("stream source", "kafka_on_spark.spark.format.source", f"N records of N partitions are read by N tasks, {start}"),
        ("stream sink", "kafka_on_spark.service.append.append_service", "appended N records to third"),
        ("planner", "kafka_on_spark.spark.format.source", f"N records of N partitions are read by N tasks, {start}"),
    }  # fmt: skip
    assert expected <= said, sorted(said)
    # A process is one kind only, and the controller is in the process that runs it.
    assert len({match[3] for match in lines}) == len({(match[2], match[3]) for match in lines})
    assert any(
        match[2] == "driver" and match[4] == "kafka_on_spark.service.control.term"
        for match in lines
    ), sorted(said)
