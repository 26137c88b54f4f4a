"""Input is read by chunks of whole lines, however it comes."""

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_on_spark.base.errors import MessageTooLargeError
from kafka_on_spark.cli import produce
from kafka_on_spark.cli.process import Interrupts
from kafka_on_spark.cli.produce import Input
from kafka_on_spark.produce.accumulator import LINGER_MS


def _lines(descriptor, bytes_max=1000):
    source = Input(Interrupts(), bytes_max, LINGER_MS, produce.CHUNK_BYTES)
    return (chunk.lines for chunk in source.lines([f"/dev/fd/{descriptor}"]))


def _read(content):
    ours, theirs = os.pipe()

    def write():
        with open(theirs, "wb") as pipe:
            pipe.write(content)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        return list(_lines(ours))
    finally:
        os.close(ours)
        writer.join()


@given(
    content=st.lists(st.sampled_from([b"a", b"\n", b"\r", b"ab", b"\xff"])).map(b"".join),
    chunk_bytes=st.integers(1, 20),
    read_bytes=st.integers(1, 5),
)
def test_lines_are_those_of_the_whole_wherever_reads_end(content, chunk_bytes, read_bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(produce, "READ_BYTES", read_bytes)
        patch.setattr(produce, "CHUNK_BYTES", chunk_bytes)
        found = _read(content)

    lines = [each.removesuffix(b"\r") for each in content.split(b"\n")]
    expected = (
        lines[:-1] if content.endswith(b"\n") or not content else lines
    )  # what ends the last line begins none
    assert [line for chunk in found for line in chunk] == expected
    assert all(found)


def test_line_that_is_too_long_is_told_after_those_before_it(monkeypatch):
    monkeypatch.setattr(produce, "CHUNK_BYTES", 10)
    ours, theirs = os.pipe()
    os.write(theirs, b"a\nb\n" + b"x" * 200)
    found = _lines(ours, 100)

    assert next(found) == [b"a", b"b"]
    with pytest.raises(MessageTooLargeError, match="line 3"):
        next(found)
    os.close(ours)
    os.close(theirs)
