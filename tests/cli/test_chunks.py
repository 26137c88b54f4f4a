"""Input is read by chunks of whole lines, however it comes."""

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_on_spark.cli.produce import chunks
from kafka_on_spark.cli.produce.chunks import LongLineError, Pace, line_chunks, without_returns


def _read(content, pace):
    ours, theirs = os.pipe()

    def write():
        with open(theirs, "wb") as pipe:
            pipe.write(content)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        return list(line_chunks(ours, pace))
    finally:
        os.close(ours)
        writer.join()


@given(
    content=st.lists(st.sampled_from([b"a", b"\n", b"\r", b"ab", b"\xff"])).map(b"".join),
    chunk_bytes=st.integers(1, 20),
    read_bytes=st.integers(1, 5),
)
def test_lines_are_those_of_the_whole_wherever_reads_end(content, chunk_bytes, read_bytes):
    pace = Pace(linger_ms=0, chunk_bytes=chunk_bytes, line_bytes_max=1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "READ_BYTES", read_bytes)
        found = _read(content, pace)

    lines = content.split(b"\n")
    expected = lines if lines[-1] else lines[:-1]  # what ends the last line begins none
    assert [line for chunk in found for line in chunk] == expected
    assert all(found)


def test_line_that_is_too_long_is_told_after_those_before_it():
    pace = Pace(linger_ms=0, chunk_bytes=10, line_bytes_max=100)
    ours, theirs = os.pipe()
    os.write(theirs, b"a\nb\n" + b"x" * 200)
    found = line_chunks(ours, pace)

    assert next(found) == [b"a", b"b"]
    with pytest.raises(LongLineError):
        next(found)
    os.close(ours)
    os.close(theirs)


def test_returns_that_end_lines_are_no_part_of_them():
    assert without_returns([b"a\r", b"", b"\r", b"b\rc", b"\r\r"]) == [
        b"a",
        b"",
        b"",
        b"b\rc",
        b"\r",
    ]
