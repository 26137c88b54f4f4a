"""Which process is which, and lines that are written once: by us, or by the application that listens."""

import json
import logging
import subprocess
import sys

import pytest

from kafka_on_spark.logs import UnheardHandler, process_kind, set_up

SITE = "/v/lib/python3.11/site-packages/pyspark"
# fmt: off
KINDS = [
    ([],                                                                    "driver"),
    (["/v/bin/kafka-on-spark", "controller"],                               "driver"),
    (["/v/lib/ipykernel_launcher.py", "-f", "x.json"],                      "driver"),
    (["/home/pyspark/job.py"],                                              "driver"),
    ([f"{SITE}/daemon.py", "pyspark.worker"],                               "executor"),
    ([f"{SITE}/daemon.py", "pyspark.worker", "pyspark.worker"],             "executor"),
    ([f"{SITE}/daemon.py"],                                                 "executor"),
    ([f"{SITE}/worker.py"],                                                 "executor"),
    ([f"{SITE}/daemon.py", "pyspark.sql.worker.plan_data_source_read"],     "planner"),
    ([f"{SITE}/daemon.py", "pyspark.sql.worker.create_data_source"],        "planner"),
    ([f"{SITE}/sql/worker/lookup_data_sources.py"],                         "planner"),
    ([f"{SITE}/daemon.py", "pyspark.sql.worker.commit_data_source_write"],  "commit"),
    ([f"{SITE}/sql/worker/python_streaming_sink_runner.py"],                "stream sink"),
    ([f"{SITE}/sql/streaming/python_streaming_source_runner.py"],           "stream source"),
    ([f"{SITE}/daemon.py", "pyspark.sql.streaming.python_streaming_source_runner"], "stream source"),
]
# fmt: on
SAYING = (
    "import logging; log = logging.getLogger('kafka_on_spark.x'); log.info('a'); log.warning('b')"
)


@pytest.mark.parametrize("arguments, kind", KINDS)
def test_kind_of_a_process(arguments, kind):
    assert process_kind(arguments) == kind


def logged_lines(program, level=None, form=None):
    """Return what a process says on standard error that runs `program`."""
    environment = {} if level is None else {"KAFKA_ON_SPARK_LOG_LEVEL": level}
    environment |= {} if form is None else {"KAFKA_ON_SPARK_LOG_FORMAT": form}
    paths = [path for path in sys.path if path]
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {paths!r}\nimport kafka_on_spark\n{program}"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip
    return run.stderr.splitlines()


def test_lines_are_json_when_asked_for_and_of_visible_characters():
    program = (
        "import logging; log = logging.getLogger('kafka_on_spark.x')\n"
        "log.warning('a %s', '\\x1b[2J')\n"
        "try: 1 / 0\n"
        "except ZeroDivisionError: log.exception('b')"
    )

    lines = logged_lines(program, form="json")

    assert all(line.isascii() and line.isprintable() for line in lines)
    first, second = map(json.loads, lines)
    assert first["level"] == "WARNING"
    assert first["message"] == "a \\x1b[2J"
    assert first["process"] == "driver"
    assert first["logger"] == "kafka_on_spark.x"
    assert first["time"].endswith("+00:00")
    assert "error" not in first
    assert second["error"].endswith("ZeroDivisionError: division by zero")
    [refusal, _] = logged_lines(
        "import logging; logging.getLogger('kafka_on_spark').error('c')", form="xml"
    )
    assert "KAFKA_ON_SPARK_LOG_FORMAT can't be 'xml'" in refusal


def test_warnings_are_said_by_default_and_the_rest_when_asked_for():
    [by_default] = logged_lines(SAYING)
    first, second = logged_lines(SAYING, "info")
    [refusal, usual] = logged_lines(SAYING, "loud")

    assert " WARNING [driver " in by_default
    assert by_default.endswith("] kafka_on_spark.x: b")
    assert first.endswith("] kafka_on_spark.x: a")
    assert second.endswith("] kafka_on_spark.x: b")
    assert refusal.endswith(
        "KAFKA_ON_SPARK_LOG_LEVEL can't be 'loud': give one of DEBUG, INFO, WARNING, ERROR, CRITICAL"
    )
    assert usual.endswith("] kafka_on_spark.x: b")


def test_a_process_with_logging_of_its_own_has_each_line_once_and_in_its_own_way():
    """Also where it is set up after the import."""
    configured = "import logging; logging.basicConfig(format='mine: %(message)s')\n"

    assert logged_lines(configured + SAYING) == ["mine: b"]
    assert logged_lines(configured + SAYING, "debug") == ["mine: a", "mine: b"]
    own = (
        "import logging; logging.getLogger('kafka_on_spark').addHandler(logging.StreamHandler())\n"
    )
    assert logged_lines(own + SAYING) == ["b"]


def test_a_process_that_writes_alone_goes_on_where_another_package_gives_the_root_logger_a_handler():
    alone = "from kafka_on_spark.logs import write_alone; write_alone()\n"
    py4j = "import logging; logging.info('Exception while sending command.')\n"

    [line] = logged_lines(alone + py4j + SAYING, form="json")

    assert json.loads(line)["message"] == "b"


def test_a_process_is_set_up_once():
    set_up()
    set_up()

    handlers = logging.getLogger("kafka_on_spark").handlers
    assert sum(isinstance(handler, UnheardHandler) for handler in handlers) == 1
