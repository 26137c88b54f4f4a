"""A replica's table changed by hand, as careless or ill-meaning hands with access to its root do.

The chain is made to fit again by a second implementation, from the commits' own text: what passes
here passed no code of the product.
"""

import json
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from kafka_on_spark.log.segments import RECORD_SCHEMA, new_segment

BEGINNING = "0" * 32
_HEADER = (
    "base_offset", "end_offset", "batch_base_offset", "batch_record_count", "partition_count",
    "leader_epoch", "producer_id", "producer_epoch", "sequence", "payload_digest", "timestamp_type",
)  # fmt: skip

Edit = Callable[[dict[str, Any]], None]


def commit_files(folder: Path) -> list[Path]:
    """Return a table's commits, oldest first."""
    return sorted((folder / "_delta_log").glob("*.json"))


def edit_actions(path: Path, edit: Edit) -> None:
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        edit(action)
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))


def without_checkpoints(folder: Path) -> None:
    """Have a table read from its commits alone."""
    for path in (folder / "_delta_log").glob("*checkpoint*"):
        path.unlink()


def edit_batch(folder: Path, base_offset: int, edit: Edit) -> None:
    """Change what a table says of the batch that begins at `base_offset`."""

    def one(action: dict[str, Any]) -> None:
        values = action.get("add", {}).get("partitionValues", {})
        if values.get("batch_base_offset") == str(base_offset):
            edit(action["add"])

    without_checkpoints(folder)
    for path in commit_files(folder):
        edit_actions(path, one)


def rechain(folder: Path, begins: dict[int, str] | None = None) -> None:
    """Make all chain digests of a table's commits compute again.

    `begins`: digests before offsets at which its log begins, other than 0.
    """
    configuration = DeltaTable(str(folder)).metadata().configuration
    where = [configuration["kos.topic.id"], int(configuration["kos.partition"])]
    digests = {0: BEGINNING, **(begins or {})}

    def one(action: dict[str, Any]) -> None:
        if "add" not in action:
            return
        add = action["add"]
        values = add["partitionValues"]
        header = [
            each if name == "producer_id" or each is None else int(each)
            for name, each in ((name, values[name]) for name in _HEADER)
        ]
        digest = add["path"].split("-")[2].removesuffix(".parquet")
        before = digests[int(values["base_offset"])]
        content = [before, *where, *header, add["modificationTime"], None, digest]
        text = json.dumps(content, separators=(",", ":"))
        values["chain_digest"] = blake2b(text.encode(), digest_size=16).hexdigest()
        digests[int(values["end_offset"])] = values["chain_digest"]

    without_checkpoints(folder)
    for path in commit_files(folder):
        edit_actions(path, one)


def file_of(folder: Path, value: bytes, leader_epoch: int = 0) -> tuple[str, int]:
    """Write a segment of one record into a replica's folder; return its name and size."""
    row = {"timestamp": 0, "key": b"key", "value": value, "headers": None}
    table = pa.Table.from_pylist([row], schema=RECORD_SCHEMA)
    segment, content = new_segment(table, leader_epoch)
    (folder / segment.file_name).write_bytes(content.to_pybytes())
    return segment.file_name, segment.size_bytes


def rewrite(folder: Path, base_offset: int, value: bytes) -> None:
    """Put another record in the place of a batch of one, under the same identity."""

    def edit(add: dict[str, Any]) -> None:
        epoch, uuid, _ = add["path"].split("-")
        path, add["size"] = file_of(folder, value, int(epoch))
        add["path"] = f"{epoch}-{uuid}-{path.split('-')[2]}"
        (folder / path).rename(folder / add["path"])

    edit_batch(folder, base_offset, edit)


def append(folder: Path, value: bytes) -> None:
    """Append a batch of one record, in the name of the newest batch's leadership."""
    last = commit_files(folder)[-1]
    adds = [
        action["add"]
        for path in commit_files(folder)
        for action in map(json.loads, path.read_text().splitlines())
        if "add" in action
    ]
    add = max(adds, key=lambda each: int(each["partitionValues"]["end_offset"]))
    values = add["partitionValues"]
    end = int(values["end_offset"])
    path, size = file_of(folder, value, int(values["leader_epoch"]))
    header = values | {
        "base_offset": str(end),
        "batch_base_offset": str(end),
        "batch_record_count": "1",
        "end_offset": str(end + 1),
    }
    stats = json.loads(add["stats"]) | {"numRecords": 1}
    added = add | {
        "path": path,
        "size": size,
        "partitionValues": header,
        "stats": json.dumps(stats),
    }
    counter = {"appId": "log-end-offset", "version": end + 1}
    actions = [{"commitInfo": {"writeId": "forged", "op": "append"}}, {"add": added}]
    text = "".join(json.dumps(each) + "\n" for each in [*actions, {"txn": counter}])
    (last.parent / f"{int(last.stem) + 1:020d}.json").write_text(text)
    rechain(folder)


def roll_back(folder: Path, commits: int = 1) -> None:
    """Take a table's newest commits away, as an older copy of the disk would."""
    without_checkpoints(folder)
    for path in commit_files(folder)[-commits:]:
        path.unlink()


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def change_header(folder: Path, name: str, value: str) -> None:
    """Change a header of the newest batch, and make the chain compute again."""
    ends = [
        int(action["add"]["partitionValues"]["batch_base_offset"])
        for path in commit_files(folder)
        for action in map(json.loads, path.read_text().splitlines())
        if "add" in action
    ]
    edit_batch(folder, max(ends), lambda add: add["partitionValues"].update({name: value}))
    rechain(folder)
