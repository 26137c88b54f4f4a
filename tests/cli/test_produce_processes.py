"""`produce` as a process: pipes, interrupts, and what it imports."""

import os
import signal
import time
from subprocess import DEVNULL, PIPE


def _values(cluster, topic):
    return cluster.read(topic).column("value").to_pylist()


def test_pipe_is_appended_as_it_comes_and_an_interrupt_says_what_stands(call, new_topic, cluster):
    topic = new_topic()
    process = call.start("produce", "--topic", topic, stdin=PIPE, stdout=PIPE, stderr=PIPE)

    process.stdin.write("a\nb\nhalf a line")
    process.stdin.flush()
    while cluster.offsets(topic)[0].high_watermark < 2:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate()

    assert _values(cluster, topic) == [b"a", b"b"]
    assert (process.returncode, said) == (130, f"Appended 2 records to {topic}.\n")
    assert complaint == "kafka-on-spark: interrupted\n"


def test_input_that_another_process_has_made_non_blocking_is_waited_for(
    call, new_topic, cluster, tmp_path
):
    topic = new_topic()
    (tmp_path / "FIRST").write_bytes(b"first\n")
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    arguments = ("produce", "--topic", topic, "FIRST", "-")
    process = call.start(*arguments, stdin=ours, stdout=DEVNULL, stderr=PIPE, cwd=tmp_path)
    os.close(ours)

    while cluster.offsets(topic)[0].high_watermark < 1:
        assert process.poll() is None
        time.sleep(0.02)
    with open(theirs, "wb") as pipe:
        pipe.write(b"second\nthird")
    _, complaint = process.communicate()

    assert (process.returncode, complaint) == (0, "")
    assert _values(cluster, topic) == [b"first", b"second", b"third"]


def test_closed_pipe_of_the_answer_ends_quietly(call, new_topic, tmp_path, pipe_without_reader):
    topic = new_topic()
    (tmp_path / "lines").write_text("a\n")
    ends = {"stdout": pipe_without_reader, "stderr": PIPE}

    with call.start("produce", "--topic", topic, tmp_path / "lines", **ends) as process:
        complaint = process.stderr.read()

    assert (process.returncode, complaint) == (141, "")
