"""Holds the format of a voter's table: its version and columns, and what an open table must say.

Apart from `voter_log`, which reads and writes such a table: creating one asks for no more.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from kafka_on_spark.errors import CorruptLogError
from kafka_on_spark.storage.identity.metadata_root import MetadataIdentity
from kafka_on_spark.storage.metadata.metadata_files import FILE_SCHEMA

FORMAT_VERSION: Final = "3"

HEADER: Final = ("base_offset", "epoch", "write_id", "headers")
TABLE_SCHEMA: Final = pa.schema(
    [
        ("base_offset", pa.int64()),
        ("epoch", pa.int32()),
        ("write_id", pa.string()),
        ("headers", pa.string()),
        *FILE_SCHEMA,
    ]
)


def check_format(found: Mapping[str, str], root: str, identity: MetadataIdentity) -> None:
    """Check the configuration of the table that a metadata root names.

    Raises:
        CorruptLogError: It is of another format, or another root's.
    """
    version = found.get("kos.format.version", "none")
    if version != FORMAT_VERSION:
        advice = (
            "use a newer kafka_on_spark"
            if version.isdecimal() and int(version) > int(FORMAT_VERSION)
            else "create it again, and append its records anew"
        )
        raise CorruptLogError(
            f"the cluster at {root} has format {version}, this version reads"
            f" {FORMAT_VERSION}: {advice}"
        )
    for name, value in identity.configuration.items():
        if found.get(name) != value:
            table = identity.table_at(root)
            words = f"the table at {table} is another metadata root's: restore its own"
            raise CorruptLogError(words, setting=name, expected=value, found=found.get(name))
