"""`produce` as a process: pipes, interrupts, and what it imports."""

import os
import select
import signal
import time
from fcntl import F_GETPIPE_SZ, fcntl
from subprocess import DEVNULL, PIPE

STALLING = """
import os
from kafka_on_spark.cli.application import main
from kafka_on_spark.cli.produce import Appends

def stalling(appends, batch, append=Appends._append):
    os.write(int(os.environ["BEGINS"]), b".")
    os.read(int(os.environ["GOES_ON"]), 1)
    return append(appends, batch)

Appends._append = stalling
main()
"""
"""`produce` whose appends tell that they begin, and wait until they may go on."""

LINE = b"x" * 999 + b"\n"


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


def test_large_pipe_is_appended_whole_and_in_order(call, new_topic, cluster):
    topic = new_topic()
    lines = [str(each) for each in range(200_000)]
    process = call.start(
        "produce",
        "--topic",
        topic,
        stdin=PIPE,
        stdout=DEVNULL,
        stderr=PIPE,
    )

    _, complaint = process.communicate("\n".join(lines))

    assert (process.returncode, complaint) == (0, "")
    assert _values(cluster, topic) == [each.encode() for each in lines]


def test_while_an_append_stalls_a_pipe_fills_up_and_its_writer_waits(
    call, new_topic, cluster, monkeypatch
):
    topic = new_topic()
    begun, begins = os.pipe()
    goes_on, go = os.pipe()
    monkeypatch.setenv("BEGINS", str(begins))
    monkeypatch.setenv("GOES_ON", str(goes_on))
    ends = {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE, "pass_fds": (begins, goes_on)}
    process = call.start("produce", "--topic", topic, script=STALLING, **ends)
    for each in (begins, goes_on):
        os.close(each)
    pipe = process.stdin.fileno()
    pipe_bytes = fcntl(pipe, F_GETPIPE_SZ)

    try:
        os.write(pipe, b"first\n")
        assert os.read(begun, 1) == b".", process.communicate()
        count = _filled(pipe, 8 * pipe_bytes)
        os.close(go)
        _, complaint = process.communicate()
    finally:
        process.kill()
        process.wait()

    os.close(begun)
    assert (process.returncode, complaint) == (0, "")
    assert count * len(LINE) <= pipe_bytes, "it takes more than one append"
    assert _values(cluster, topic) == [b"first", *[LINE[:-1]] * count]


def _filled(pipe, bytes_max):
    """Write lines into a pipe until nobody takes more of them; return how many it took."""
    count = 0
    while count * len(LINE) < bytes_max and select.select([], [pipe], [], 0.5)[1]:
        count += os.write(pipe, LINE) // len(LINE)
    return count


def test_named_pipe_is_opened_once_so_its_writer_loses_nothing(call, new_topic, cluster, tmp_path):
    topic = new_topic()
    os.mkfifo(tmp_path / "lines")
    process = call.start("produce", "--topic", topic, tmp_path / "lines", stdout=PIPE, stderr=PIPE)

    (tmp_path / "lines").write_text("a\nb\n")
    try:
        _, complaint = process.communicate(timeout=300)  # it would wait for ever
    finally:
        process.kill()

    assert (process.returncode, complaint) == (0, "")
    assert _values(cluster, topic) == [b"a", b"b"]


def test_closed_pipe_of_the_answer_ends_quietly(call, new_topic, tmp_path, pipe_without_reader):
    topic = new_topic()
    (tmp_path / "lines").write_text("a\n")
    ends = {"stdout": pipe_without_reader, "stderr": PIPE}

    with call.start("produce", "--topic", topic, tmp_path / "lines", **ends) as process:
        complaint = process.stderr.read()

    assert (process.returncode, complaint) == (141, "")


def test_output_that_is_closed_is_no_file_of_the_cluster(call, new_topic, cluster):
    topic = new_topic()
    process = call.start(
        "produce", "--topic", topic, stdin=PIPE, stderr=PIPE, preexec_fn=lambda: os.close(1)
    )

    _, complaint = process.communicate("a\n")

    assert (process.returncode, complaint) == (0, "")
    assert _values(cluster, topic) == [b"a"]


def test_no_spark_is_imported(call, new_topic, monkeypatch):
    topic = new_topic()
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")

    process = call.start("produce", "--topic", topic, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    _, imports = process.communicate("a\n")

    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in imports.splitlines()}
    assert process.returncode == 0
    assert {"kafka_on_spark", "pyarrow"} <= imported
    assert not {"pyspark", "py4j", "delta"} & imported
