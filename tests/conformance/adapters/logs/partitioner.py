"""The kind of file 09: which partition a key belongs to."""

import numpy as np
import pyarrow as pa

from kafka_on_spark.log.hashing import murmur2, partitions_of_keys, to_positive
from tests.conformance.runner import Adapter


class Partitioner(Adapter):
    """Keys one at a time, through the functions that hash whole columns."""

    def op_to_positive(self, number):
        return int(to_positive(np.array([number], np.int32))[0])

    def op_murmur2(self, key=None, key_hex=None):
        return int(murmur2(_column(key, key_hex))[0])

    def op_partition_for_key(self, num_partitions, key=None, key_hex=None):
        return int(partitions_of_keys(_column(key, key_hex), num_partitions)[0])


def _column(key, key_hex):
    return pa.array([bytes.fromhex(key_hex) if key is None else key.encode()], pa.binary())
