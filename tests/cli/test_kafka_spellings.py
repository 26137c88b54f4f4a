"""What Kafka's tools take is taken, in their spelling; what can't be meant here is refused."""

import os
import subprocess
import sys

import pytest

from tests.cli.conftest import ROOT

# fmt: off
WORDS = [
    pytest.param("kafka-on-spark consumer-g", 1,           "consumer-groups",  id="a verb"),
    pytest.param("kafka-on-spark topics --under-rep", 2,   "--under-replicated-partitions", id="an option"),
]
# fmt: on


@pytest.mark.parametrize("words, place, expected", WORDS)
def test_a_shell_completes_verbs_and_options(words, place, expected):
    variables = {
        "_KAFKA_ON_SPARK_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place),
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip

    done = subprocess.run(
        [sys.executable, "-m", "kafka_on_spark.cli"],
        env=os.environ | variables, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert done.stdout.split() == [expected], done


def test_options_are_there_where_python_leaves_docstrings_out():
    done = subprocess.run(
        [sys.executable, "-OO", "-m", "kafka_on_spark.cli", "get-offsets", "--help"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip

    assert "--exclude-internal-topics" in done.stdout
