"""The quickstart's checks, as pure functions of Arrow tables: each returns its findings in words.

Apart from the job, so that a test can plant each fault and see it found.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from jobs.quickstart_run.flights import IDENTITY
from kafka_on_spark.metadata.quorum.description import QuorumDescription

Places = npt.NDArray[np.int64]


def check_records(flights: pa.Table, committed: pa.Table) -> list[str]:
    """Check that every flight is committed exactly once, whole, and that each key is in order.

    `flights` are in file order; `committed` has the columns of Spark's Kafka source.
    """
    try:
        found = parse_values(committed.column("value"), flights.schema)
    except (pa.ArrowException, ValueError) as error:
        return [f"a committed value is not a flight: {str(error).splitlines()[0]}"]
    rows = pc.index_in(identities(found), value_set=identities(flights))
    problems = _check_counts(flights, found, rows)
    if rows.null_count:
        return problems
    places = rows.to_numpy(zero_copy_only=False).astype(np.int64)
    expected = flights.take(pa.array(places))
    problems += _check_content(expected, found, committed)
    problems += _check_key_order(expected, committed, places)
    return problems


def parse_values(values: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    """Return JSON values as a table, a row each.

    Raises:
        ValueError: One is null, or not one line of JSON of the schema's columns.
    """
    lines = values.to_pylist()
    if None in lines:
        raise ValueError("one is null")
    if not lines:
        return schema.empty_table()
    text = pa.BufferReader(b"\n".join(lines))
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    table = pj.read_json(text, parse_options=options)
    if table.num_rows != len(lines):
        raise ValueError("one is not one line of JSON")
    return table


def identities(flights: pa.Table) -> pa.Array:
    """Return each flight's identity, as text."""
    columns = [flights.column(name).cast(pa.string()) for name in IDENTITY]
    texts: pa.ChunkedArray = pc.binary_join_element_wise(*columns, "|")
    return texts.combine_chunks()


def _check_counts(flights: pa.Table, found: pa.Table, rows: pa.Array) -> list[str]:
    names = identities(flights)
    places = rows.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.bincount(places, minlength=flights.num_rows)
    problems = []
    if rows.null_count:
        foreign = identities(found).filter(pc.is_null(rows))
        problems.append(f"{rows.null_count} committed records are no flights, {_first(foreign)}")
    missing = np.flatnonzero(counts == 0)
    if len(missing):
        problems.append(f"{len(missing)} flights are missing, {_first(names.take(missing))}")
    repeated = np.flatnonzero(counts > 1)
    if len(repeated):
        problems.append(
            f"{len(repeated)} flights are committed more than once, {_first(names.take(repeated))}"
        )
    return problems


def _first(names: pa.Array) -> str:
    return f"the first is {names[0].as_py()}"


def _check_content(expected: pa.Table, found: pa.Table, committed: pa.Table) -> list[str]:
    """Compare value, key and timestamp with the flight that the record says it is."""
    problems = [
        f"{_count(differ)} records have another {name} than their flight"
        for name in expected.column_names
        if _count(differ := _differ(expected.column(name), found.column(name)))
    ]
    keys = expected.column("tailnum").cast(pa.binary())
    if wrong := _count(_differ(keys, committed.column("key"))):
        problems.append(f"{wrong} records have another key than their tail number")
    minutes = pc.multiply(expected.column("minute").cast(pa.int64()), 60_000_000)
    departures = pc.add(expected.column("time_hour").cast(pa.int64()), minutes)
    if wrong := _count(_differ(departures, committed.column("timestamp").cast(pa.int64()))):
        problems.append(f"{wrong} records have another timestamp than the scheduled departure")
    return problems


def _differ(expected: Any, found: Any) -> Any:
    """Return where two columns differ; null is equal to null."""
    one_null = pc.xor(pc.is_null(expected), pc.is_null(found))
    return pc.or_(one_null, pc.fill_null(pc.not_equal(expected, found), False))


def _count(mask: Any) -> int:
    return int(pc.sum(mask).as_py() or 0)


def _check_key_order(expected: pa.Table, committed: pa.Table, places: Places) -> list[str]:
    """Check that a key's records stand in one partition, in the order of the file."""
    keys = expected.column("tailnum").combine_chunks().dictionary_encode().indices
    is_keyed = pc.is_valid(keys).to_numpy(zero_copy_only=False)
    codes = pc.fill_null(keys, -1).to_numpy(zero_copy_only=False)[is_keyed]
    partitions = committed.column("partition").to_numpy()[is_keyed]
    offsets = committed.column("offset").to_numpy()[is_keyed]
    order = np.lexsort((offsets, partitions, codes))
    is_same_key = np.diff(codes[order]) == 0
    is_elsewhere = np.diff(partitions[order]) != 0
    is_earlier = np.diff(places[is_keyed][order]) <= 0
    problems: list[str] = []
    if split := int(np.sum(is_same_key & is_elsewhere)):
        problems.append(f"the records of {split} keys stand in more than one partition")
    if wrong := int(np.sum(is_same_key & ~is_elsewhere & is_earlier)):
        problems.append(f"{wrong} records stand before an earlier one of their key")
    return problems


def check_offsets(committed: pa.Table, high_watermarks: dict[int, int]) -> list[str]:
    """Check that the committed records of a partition have the offsets from 0 to its end."""
    return [
        f"partition {partition} should have the offsets 0 to {end - 1} without gaps, and has not"
        for partition, end in sorted(high_watermarks.items())
        if not np.array_equal(_offsets(committed, partition), np.arange(end))
    ]


def check_seen(committed: pa.Table, seen: pa.Table) -> list[str]:
    """Check that a stream saw every committed record once, and each partition in order."""
    problems: list[str] = []
    numbers = pa.concat_arrays(
        [pc.unique(committed.column("partition")), pc.unique(seen.column("partition"))]
    )
    for partition in sorted(pc.unique(numbers).to_pylist()):
        expected, found = _offsets(committed, partition), _offsets(seen, partition)
        problems += _check_one_partition(partition, np.sort(expected), found)
    if problems:
        return problems
    timestamps = committed.column("timestamp").cast(pa.int64())
    whole = committed.select(["partition", "offset", "key", "value"]).append_column(
        "timestamp_us", timestamps
    )
    in_order = [("partition", "ascending"), ("offset", "ascending")]
    if not whole.sort_by(in_order).equals(seen.sort_by(in_order).cast(whole.schema)):
        problems.append("the stream has seen other keys, values or timestamps than are committed")
    return problems


def _check_one_partition(partition: int, expected: Places, found: Places) -> Sequence[str]:
    name = f"the stream has seen partition {partition}"
    if np.array_equal(expected, found):
        return []
    problems = []
    if missing := len(np.setdiff1d(expected, found)):
        problems.append(f"{name} without {missing} of its records")
    if foreign := len(np.setdiff1d(found, expected)):
        problems.append(f"{name} with {foreign} records that are not committed")
    if repeated := len(found) - len(np.unique(found)):
        problems.append(f"{name} with {repeated} records more than once")
    if np.any(np.diff(found) < 0):
        problems.append(f"{name} out of order")
    return problems


def _offsets(records: pa.Table, partition: int) -> Places:
    mine = records.filter(pc.equal(records.column("partition"), partition))
    offsets: Places = mine.column("offset").to_numpy()
    return offsets


def check_voters(quorum: QuorumDescription, lost_root: str) -> list[str]:
    """Check that the voter at `lost_root` is lost, and that each other one has the whole log."""
    problems = []
    for each in quorum.voters:
        number, is_lost = each.voter.key.node_id, each.problem is not None
        if is_lost != (each.voter.root == lost_root):
            state = f"can't be read: {each.problem}" if is_lost else "answers, though it was taken"
            problems.append(f"voter {number} {state}")
        elif not is_lost and each.lag != 0:
            behind = "does not follow" if each.lag is None else f"lacks {each.lag} records"
            problems.append(f"voter {number} {behind}")
    return problems
