"""How a call's process begins and ends: with what it leaves out, nobody misses anything."""

import os
from pathlib import Path
from subprocess import PIPE

import pytest

ENDING = """
import atexit
import sys
import threading
from kafka_on_spark.cli import main

{}
atexit.register(print, "a handler")
main()
"""
SLOW_THREAD = """
asked = threading.Event()
threading.Thread(target=lambda: (asked.wait(), print("a thread"))).start()
threading._register_atexit(asked.set)  # once the call has ended, and before it is waited for
"""
FAILING = """
from kafka_on_spark.cli import application
application.app = lambda **_: 1 / 0
"""
SAYING = "import os; from kafka_on_spark.cli import main; print(os.environ.get({!r})); main()"
THREADS = "OPENBLAS_NUM_THREADS"
COUNTING = """
import os
from kafka_on_spark.cli import main
import numpy
print(len(os.listdir("/proc/self/task")))
main()
"""


def ended(call, before, *arguments):
    """Return the exit code of a call, what it said, and its complaint."""
    process = call.start(*arguments, script=ENDING.format(before), stdout=PIPE, stderr=PIPE)
    said, complaint = process.communicate()
    return process.returncode, said.splitlines(), complaint


def test_a_call_ends_with_its_code_after_its_threads_and_handlers(call):
    code, said, complaint = ended(call, SLOW_THREAD, "brokers", "--list", "--output", "json")

    assert (code, complaint) == (0, "")
    assert said[-2:] == ["a thread", "a handler"]
    assert said[-3] == "]"


def test_a_refused_call_ends_with_its_code_too(call):
    code, said, complaint = ended(call, "", "produce", "-t", "nowhere")

    assert (code, said) == (2, ["a handler"])
    assert complaint.startswith("kafka-on-spark: ")


def test_an_error_that_nobody_expects_is_left_to_python(call):
    code, said, complaint = ended(call, FAILING, "brokers", "--list")

    assert (code, said) == (1, ["a handler"])
    assert complaint.splitlines()[-1] == "ZeroDivisionError: division by zero"


def test_an_output_that_takes_nothing_at_the_end_is_left_to_python(call, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # so the handler's line is still there
    refused = ("produce", "-t", "nowhere")
    with open("/dev/full", "w") as full:
        process = call.start(*refused, script=ENDING.format(""), stdout=full, stderr=PIPE)
        _, complaint = process.communicate()

    assert process.returncode == 120  # Python's own, when the last of an output can't be written
    assert "No space left on device" in complaint


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="threads are counted in /proc")
@pytest.mark.skipif(os.cpu_count() == 1, reason="on one processor there is one thread anyhow")
def test_a_call_that_has_imported_numpy_has_no_threads_of_linear_algebra(call, monkeypatch):
    def threads_of(allowed):
        monkeypatch.delenv(THREADS, raising=False)
        if allowed is not None:
            monkeypatch.setenv(THREADS, allowed)
        process = call.start("--version", script=COUNTING, stdout=PIPE)
        return int(process.communicate()[0].splitlines()[0])

    assert threads_of(None) == threads_of("1") < threads_of("2")


def test_processes_that_a_call_starts_may_have_as_many_threads_as_they_want(call, monkeypatch):
    monkeypatch.delenv(THREADS, raising=False)
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # what is said before a call comes first
    process = call.start("--version", script=SAYING.format(THREADS), stdout=PIPE)
    assert process.communicate()[0].splitlines()[0] == "None"

    monkeypatch.setenv(THREADS, "3")
    process = call.start("--version", script=SAYING.format(THREADS), stdout=PIPE)
    assert process.communicate()[0].splitlines()[0] == "3"
