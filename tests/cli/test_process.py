"""Lines of the log: text or JSON, of visible characters; and the library sets none of it up."""

import json
import logging
import os
import subprocess
import sys

import pytest

from kafka_on_spark.cli.process import JsonFormatter, TextFormatter
from tests.cli.conftest import ROOT

EVIL = "\x1b[2J\u202e\nFORGED"


def record_of(message, *arguments):
    try:
        raise ValueError(EVIL)
    except ValueError:
        return logging.getLogger("kafka_on_spark.x").makeRecord(
            "kafka_on_spark.x", logging.WARNING, "x.py", 1, message, arguments, sys.exc_info()
        )


def test_a_record_is_one_line_of_text_whatever_names_are_in_it():
    first, *trace = TextFormatter().format(record_of("root %s", EVIL)).splitlines()

    assert first.endswith(" WARNING kafka_on_spark.x: root \\x1b[2J\\u202e\\x0aFORGED")
    assert trace[0].startswith("Traceback")
    assert all(line.isprintable() for line in trace)


def test_a_record_is_one_object_of_json_on_one_line():
    [line] = JsonFormatter().format(record_of("root %s", EVIL)).splitlines()

    assert line.isascii()
    assert line.isprintable()
    found = json.loads(line)
    assert (found["level"], found["logger"]) == ("WARNING", "kafka_on_spark.x")
    assert found["message"] == "root \\x1b[2J\\u202e\\x0aFORGED"
    assert found["time"].endswith("+00:00")
    assert "FORGED" in found["error"]


def complaint_of(program, **variables):
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.splitlines()


SAYING = (
    "import logging; log = logging.getLogger('kafka_on_spark.x'); log.info('a'); log.warning('b')"
)


def test_the_library_leaves_lines_to_its_user_and_to_pythons_last_resort():
    assert complaint_of(f"import kafka_on_spark\n{SAYING}") == ["b"]
    own = "import logging, kafka_on_spark; logging.basicConfig(format='mine: %(message)s')\n"
    assert complaint_of(own + SAYING) == ["mine: b"]


@pytest.mark.parametrize("level, said", [("", ["b"]), ("info", ["a", "b"])])
def test_the_command_line_writes_lines_itself_from_a_level_on(level, said):
    program = "from kafka_on_spark.cli.process import set_up; set_up()\n"
    py4j = "import logging; logging.info('gives the root logger a handler')\n"

    lines = complaint_of(program + py4j + SAYING, KAFKA_ON_SPARK_LOG_LEVEL=level)

    assert [line.rpartition("kafka_on_spark.x: ")[2] for line in lines] == said


def test_a_level_that_is_none_is_refused():
    program = (
        "import sys; sys.argv[1:] = ['--version']\nfrom kafka_on_spark.cli import main; main()"
    )

    assert complaint_of(program, KAFKA_ON_SPARK_LOG_LEVEL="loud") == [
        "kafka-on-spark: KAFKA_ON_SPARK_LOG_LEVEL can't be 'loud': give one of DEBUG, INFO, WARNING,"
        " ERROR, CRITICAL"
    ]
