"""File 09: the default partitioner."""

from typing import Any

import numpy as np
import pyarrow as pa

from kafka_on_spark.storage.hashing import murmur2, partitions_of_keys, to_positive
from tests.conformance.running import Adapter, NotApplicableError


def column(key: str | None, key_hex: str | None) -> Any:
    """Return a key, given as text or in hexadecimal, as a column of one."""
    content = bytes.fromhex(key_hex) if key_hex is not None else (key or "").encode()
    return pa.array([content], pa.binary())


class Partitioner(Adapter):
    """Kind partitioner."""

    def murmur2(self, key: str | None = None, key_hex: str | None = None) -> int:
        return int(murmur2(column(key, key_hex))[0])

    def partition_for_key(
        self, num_partitions: int, key: str | None = None, key_hex: str | None = None
    ) -> int:
        return int(partitions_of_keys(column(key, key_hex), num_partitions)[0])

    def to_positive(self, number: int) -> int:
        return int(to_positive(np.array([number], np.int32))[0])

    def abs(self, number: int) -> int:
        raise NotApplicableError("no_absolute_values")
