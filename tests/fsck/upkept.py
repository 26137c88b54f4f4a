"""A cluster whose logs were merged, compacted and cut at the front, and damages to its files.

Made once, as `lives`. The topic of `lives` is merged; PRICES is compacted.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_on_spark import Cluster
from kafka_on_spark.base import merge_tiers
from kafka_on_spark.base.ids import ChainDigest, Offset
from kafka_on_spark.log.batch import Border
from kafka_on_spark.log.merging import BORDERS, encode_merged, unpack_borders
from kafka_on_spark.log.segments import digest_of
from tests.cluster.disks import Disks, records
from tests.forging import edit_actions
from tests.fsck.lives import TOPIC
from tests.fsck.plants import Plant

PRICES = "prices"
FAN_IN = 8  # so many files are merged into one, where clusters have 32
APPENDS = 19  # of two records each
LOG_START = 3  # inside the second, which stays; the newest 10 stay as they are
MERGED = (2, 18)  # what the 8 between them become

Rows = list[dict[str, Any]]


def live_with_upkeep(disks: Disks) -> None:
    """Have logs merged, compacted and cut at the front, on three replicas."""
    cluster, assigned = disks.cluster, {0: [1, 2, 3]}
    cluster.create_topic(TOPIC, replica_assignment=assigned)
    for number in range(APPENDS):
        values = records(b"%d" % number, b"%d again" % number)
        cluster.append(TOPIC, values, producer_id="p", sequence=number)
    cluster.delete_records({(TOPIC, 0): LOG_START})
    configs = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0",
        "delete.retention.ms": "0",
    }
    cluster.create_topic(PRICES, replica_assignment=assigned, configs=configs)
    append_prices(cluster, "a1 b1 c1", "a2 -b", "a3 d1")
    with patch.object(merge_tiers, "FAN_IN", FAN_IN):
        cluster.maintain()
        cluster.maintain()
    append_prices(cluster, "a4 c2")


def append_prices(cluster: Cluster, *texts: str) -> None:
    """Append each text as one batch: "a1 -b" writes a=1 and deletes b."""
    for text in texts:
        rows = [
            {"key": word[1:], "value": None}
            if word[0] == "-"
            else {"key": word[0], "value": word[1:]}
            for word in text.split()
        ]
        cluster.append(PRICES, rows)


@dataclass
class Rewritten:
    """A merged segment of one replica: the commit that added it, and what its header says."""

    plant: Plant
    version: int
    add: dict[str, Any]

    @property
    def path(self) -> Path:
        return self.plant.folder / self.add["path"]

    @property
    def base_offset(self) -> int:
        return int(self.add["partitionValues"]["base_offset"])

    def rows(self) -> Rows:
        return pq.read_table(self.path).to_pylist()

    def borders(self) -> tuple[Border, ...]:
        text = (pq.read_metadata(self.path).metadata or {}).get(BORDERS)
        return () if text is None else unpack_borders(text, Offset(self.base_offset))

    def edit_header(self, **values: str | None) -> None:
        self._edit(lambda add: add["partitionValues"].update(values))

    def rename(self, name: str) -> None:
        """Give the file another name, in the folder and in the commit."""
        self.path.rename(self.path.with_name(name))
        self._edit(lambda add: add.update(path=name))
        self.add["path"] = name

    def rewrite(self, rows: Rows | None = None, borders: Any = None) -> None:
        """Put other rows or borders in the file, with all digests and statistics to fit."""
        table = pa.Table.from_pylist(
            self.rows() if rows is None else rows, schema=pq.read_schema(self.path)
        )
        table = table.replace_schema_metadata(None)
        kept = self.borders() if borders is None else borders
        file = encode_merged(table.to_batches(), Offset(self.base_offset), kept)
        self.path.write_bytes(file.data)
        epoch, uuid, _ = self.add["path"].split("-")

        def fit(add: dict[str, Any]) -> None:
            stats = json.loads(add["stats"])
            add["stats"] = json.dumps({**stats, "numRecords": file.content.record_count})
            add["size"] = file.data.size
            add["partitionValues"]["content_digest"] = str(file.content.digest)

        self._edit(fit)
        self.rename(f"{epoch}-{uuid}-{digest_of(file.data)}.parquet")

    def _edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        def one(action: dict[str, Any]) -> None:
            if action.get("add", {}).get("path") == self.add["path"]:
                change(action["add"])

        edit_actions(self.plant.commit_file(self.version), one)


def rewritten(plant: Plant) -> Rewritten:
    for version in range(plant.version, -1, -1):
        actions = map(json.loads, plant.commit_file(version).read_text().splitlines())
        for add in (action["add"] for action in actions if "add" in action):
            if add["partitionValues"]["content_digest"] is not None:
                return Rewritten(plant, version, add)
    raise AssertionError("nothing was merged")


def with_digest(border: Border, digest: str) -> Border:
    return Border(border.offset, ChainDigest(digest))


def counters_of(plant: Plant) -> Mapping[str, int]:
    """Return the counters of a replica's newest version."""
    found: dict[str, int] = {}
    for version in range(plant.version + 1):
        for line in plant.commit_file(version).read_text().splitlines():
            txn = json.loads(line).get("txn")
            if txn is not None:
                found[txn["appId"]] = txn["version"]
    return found
