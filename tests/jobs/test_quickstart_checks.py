"""The quickstart's checks find what they are for: each fault is planted, and named."""

import json
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jobs.quickstart_run.checks import check_offsets, check_records, check_seen, check_voters
from jobs.quickstart_run.flights import read_flights
from tests.observe.quorums import quorum_of

ROWS = 1800  # two of them have no tail number, and many planes fly more than once
PARTITIONS = 3


@lru_cache(maxsize=1)
def flights() -> pa.Table:
    return read_flights(ROWS)


def value_of(flight: dict) -> bytes:
    return json.dumps(
        flight | {"time_hour": f"{flight['time_hour']:%Y-%m-%dT%H:%M:%S.000Z}"}
    ).encode()


@lru_cache(maxsize=1)
def committed() -> pa.Table:
    """Return what a faultless cluster has committed: by partition and offset."""
    rows = []
    ends = dict.fromkeys(range(PARTITIONS), 0)
    minutes = pc.multiply(flights().column("minute").cast(pa.int64()), 60_000_000)
    times = pc.add(flights().column("time_hour").cast(pa.int64()), minutes).to_pylist()
    for flight, time_us in zip(flights().to_pylist(), times, strict=True):
        key = flight["tailnum"]
        number = sum((key or "").encode()) % PARTITIONS
        rows.append(
            {
                "partition": number,
                "offset": ends[number],
                "key": None if key is None else key.encode(),
                "value": value_of(flight),
                "timestamp": time_us,
            }
        )
        ends[number] += 1
    schema = pa.schema(
        [
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("timestamp", pa.timestamp("us", "UTC")),
        ]
    )
    table = pa.Table.from_pylist(rows, schema=schema)
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")])


def seen() -> pa.Table:
    times = committed().column("timestamp").cast(pa.int64())
    return committed().drop_columns("timestamp").append_column("timestamp_us", times)


def without(table: pa.Table, place: int) -> pa.Table:
    return pa.concat_tables([table.slice(0, place), table.slice(place + 1)])


def with_column(table: pa.Table, name: str, values: list) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.field(name), pa.array(values, table.field(name).type))


def changed(name: str, value: object, place: int = 5) -> pa.Table:
    values = committed().column(name).to_pylist()
    values[place] = value
    return with_column(committed(), name, values)


def swapped(table: pa.Table, name: str, one: int, other: int) -> pa.Table:
    values = table.column(name).to_pylist()
    values[one], values[other] = values[other], values[one]
    return with_column(table, name, values)


def two_of_one_key() -> tuple[int, int]:
    """Return where two records of one key stand in one partition."""
    places: dict[bytes, int] = {}
    for place, key in enumerate(committed().column("key").to_pylist()):
        if key in places:
            return places[key], place
        if key is not None:
            places[key] = place
    raise AssertionError("no plane flies twice")


def test_faultless_log_has_nothing_wrong():
    assert committed().column("key").null_count == 2
    assert check_records(flights(), committed()) == []


def flight_with(**fields: object) -> bytes:
    return json.dumps(json.loads(committed().column("value")[5].as_py()) | fields).encode()


def in_another_partition() -> pa.Table:
    _, place = two_of_one_key()
    number = (committed().column("partition")[place].as_py() + 1) % PARTITIONS
    return changed("partition", number, place)


def at_another_second() -> pa.Table:
    time = committed().column("timestamp")[6].as_py()
    return changed("timestamp", time.replace(second=1))


def with_twice(table: pa.Table, place: int) -> pa.Table:
    return pa.concat_tables([table.slice(0, place + 1), table.slice(place)])


# fmt: off
FAULTS = {
    "a record is missing":    (lambda: without(committed(), 7),            "1 flights are missing, the first is 2013|1|"),
    "a record twice":         (lambda: with_twice(committed(), 7),         "1 flights are committed more than once, the first is 2013|1|"),
    "no flight of the data":  (lambda: changed("value", flight_with(flight=99999)), "1 committed records are no flights, the first is 2013|1|"),
    "no value":               (lambda: changed("value", None),             ""),
    "another key":            (lambda: changed("key", b"N0"),              "1 records have another key than their tail number"),
    "another timestamp":      (at_another_second,                          "1 records have another timestamp than the scheduled departure"),
    "a key's order":          (lambda: swapped(committed(), "offset", *two_of_one_key()), "stand before an earlier one of their key"),
    "a key in two partitions": (in_another_partition,                      "keys stand in more than one partition"),
}
# fmt: on


@pytest.mark.parametrize("table, sentence", FAULTS.values(), ids=FAULTS)
def test_a_fault_of_the_log_is_found(table, sentence):
    problems = check_records(flights(), table())

    assert any(sentence in each for each in problems)
    assert all(len(each) < 300 for each in problems)


def test_order_of_keyless_records_is_not_checked_because_none_is_promised():
    places = [at for at, key in enumerate(committed().column("key").to_pylist()) if key is None]

    assert check_records(flights(), swapped(committed(), "offset", *places)) == []


def watermarks() -> dict[int, int]:
    counts = committed().group_by("partition").aggregate([("offset", "count")])
    return {row["partition"]: row["offset_count"] for row in counts.to_pylist()}


def test_offsets_without_gaps_are_fine():
    assert check_offsets(committed(), watermarks()) == []


def test_gap_in_the_offsets_is_found():
    [problem] = check_offsets(without(committed(), 3), watermarks())

    assert problem.startswith("partition 0 should have the offsets 0 to")


def test_stream_that_saw_everything_once_and_in_order_is_fine():
    assert check_seen(committed(), seen()) == []


def without_the_last_of_partition_0() -> pa.Table:
    return without(
        committed(), int(pc.sum(pc.equal(committed().column("partition"), 0)).as_py()) - 1
    )


# fmt: off
SEEN = {
    "not seen":       (committed, lambda: without(seen(), 3),            "partition 0 without 1 of its records"),
    "seen twice":     (committed, lambda: with_twice(seen(), 3),         "partition 0 with 1 records more than once"),
    "not committed":  (without_the_last_of_partition_0, seen,            "partition 0 with 1 records that are not committed"),
    "out of order":   (committed, lambda: seen().take([*range(3), 4, 3, *range(5, seen().num_rows)]), "partition 0 out of order"),
    "other content":  (committed, lambda: swapped(seen(), "value", 3, 4), "other keys, values or timestamps than are committed"),
}
# fmt: on


@pytest.mark.parametrize("log, stream, sentence", SEEN.values(), ids=SEEN)
def test_a_fault_of_what_the_stream_saw_is_found(log, stream, sentence):
    assert check_seen(log(), stream()) == [f"the stream has seen {sentence}"]


def test_the_voter_that_was_taken_away_is_told_of_and_no_other():
    assert check_voters(quorum_of(0, 0, None), "/m3") == []
    assert check_voters(quorum_of(0, None, None), "/m3") == ["voter 2 can't be read: it is away"]
    assert check_voters(quorum_of(0, 0, 0), "/m3") == ["voter 3 answers, though it was taken"]
    assert check_voters(quorum_of(0, 2, None), "/m3") == ["voter 2 lacks 2 records"]
