"""The quickstart's checks find what they are for: each fault is planted, and named."""

import json
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jobs.quickstart_run.checks import check_offsets, check_records, check_seen, check_voters
from jobs.quickstart_run.flights import read_flights
from tests.unit.inspect.quorums import quorum_of

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
    """Return what a faultless stream has seen of it."""
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


def test_missing_record_is_found():
    [problem] = check_records(flights(), without(committed(), 7))

    assert problem.startswith("1 flights are missing, the first is 2013|1|")


def test_record_that_is_there_twice_is_found():
    doubled = pa.concat_tables([committed(), committed().slice(7, 1)])

    problems = check_records(flights(), doubled)

    assert problems[0].startswith("1 flights are committed more than once, the first is 2013|1|")


def test_record_that_is_no_flight_of_the_data_is_found():
    foreign = json.loads(committed().column("value")[5].as_py()) | {"flight": 99999}

    problems = check_records(flights(), changed("value", json.dumps(foreign).encode()))

    assert problems[0].startswith("1 committed records are no flights, the first is 2013|1|")
    assert problems[1].startswith("1 flights are missing")


@pytest.mark.parametrize("value", [None, b"not JSON", b'{"year": 2013}\n{"year": 2013}', b""])
def test_value_that_is_not_a_flight_is_found(value):
    problems = check_records(flights(), changed("value", value))

    assert problems
    assert len(problems[0]) < 300


def test_changed_field_of_a_value_is_found():
    flight = json.loads(committed().column("value")[5].as_py()) | {"dep_delay": 1234}

    problems = check_records(flights(), changed("value", json.dumps(flight).encode()))

    assert problems == ["1 records have another dep_delay than their flight"]


def test_another_key_is_found():
    problems = check_records(flights(), changed("key", b"N0"))

    assert problems == ["1 records have another key than their tail number"]


def test_another_timestamp_is_found():
    time = committed().column("timestamp")[6].as_py()

    problems = check_records(flights(), changed("timestamp", time.replace(second=1)))

    assert problems == ["1 records have another timestamp than the scheduled departure"]


def test_two_records_of_a_key_in_the_wrong_order_are_found():
    one, other = two_of_one_key()

    problems = check_records(flights(), swapped(committed(), "offset", one, other))

    assert len(problems) == 1
    assert "stand before an earlier one of their key" in problems[0]


def test_order_of_keyless_records_is_not_checked_because_none_is_promised():
    places = [at for at, key in enumerate(committed().column("key").to_pylist()) if key is None]

    assert check_records(flights(), swapped(committed(), "offset", *places)) == []


def test_key_in_two_partitions_is_found():
    _, place = two_of_one_key()
    number = (committed().column("partition")[place].as_py() + 1) % PARTITIONS

    problems = check_records(flights(), changed("partition", number, place))

    assert any("keys stand in more than one partition" in each for each in problems)


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


def test_record_that_the_stream_did_not_see_is_found():
    assert check_seen(committed(), without(seen(), 3)) == [
        "the stream has seen partition 0 without 1 of its records"
    ]


def test_record_that_the_stream_saw_twice_is_found():
    doubled = pa.concat_tables([seen().slice(0, 4), seen().slice(3)])

    assert check_seen(committed(), doubled) == [
        "the stream has seen partition 0 with 1 records more than once"
    ]


def test_a_record_that_the_stream_saw_and_that_is_not_committed_is_found():
    place = int(pc.sum(pc.equal(committed().column("partition"), 0)).as_py()) - 1

    problems = check_seen(without(committed(), place), seen())

    assert problems == ["the stream has seen partition 0 with 1 records that are not committed"]


def test_records_that_the_stream_saw_out_of_order_are_found():
    order = [*range(3), 4, 3, *range(5, seen().num_rows)]

    assert check_seen(committed(), seen().take(order)) == [
        "the stream has seen partition 0 out of order"
    ]


def test_content_that_the_stream_saw_otherwise_is_found():
    assert check_seen(committed(), swapped(seen(), "value", 3, 4)) == [
        "the stream has seen other keys, values or timestamps than are committed"
    ]


def test_the_voter_that_was_taken_away_is_told_of_and_no_other():
    assert check_voters(quorum_of(0, 0, None), "/m3") == []
    assert check_voters(quorum_of(0, None, None), "/m3") == ["voter 2 can't be read: it is away"]
    assert check_voters(quorum_of(0, 0, 0), "/m3") == ["voter 3 answers, though it was taken"]
    assert check_voters(quorum_of(0, 2, None), "/m3") == ["voter 2 lacks 2 records"]
