"""Adapts the borders of a merged segment, where its plain segments ended, to its file's footer.

Apart from `merged_files`, which writes them with the records: a search for a border decodes none.
"""

import struct
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Final

import pyarrow.parquet as pq

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import ChainDigest, Offset
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.merged_segment import Border, MergedSegment
from kafka_on_spark.log.segments import checked_content, segment_error
from kafka_on_spark.store.parquet_files import read_footer
from kafka_on_spark.store.roots import StorageOptions

BORDERS: Final = b"kos.borders"
"""Key of the borders in a file's metadata: base64 of 20 bytes each, the offset from the segment's
base as 32 bits, little-endian, and the digest."""

_BORDER: Final = struct.Struct("<I16s")

BORDER_BYTES: Final = 26
"""What a border takes of a footer, and two thirds of a byte more."""


def encode_borders(borders: Sequence[Border], base_offset: Offset) -> bytes:
    """Return what a footer keeps of the borders of a segment that begins at `base_offset`."""
    packed = (
        _BORDER.pack(each.offset - base_offset, bytes.fromhex(each.chain_digest))
        for each in borders
    )
    return b64encode(b"".join(packed))


def unpack_borders(text: bytes, base_offset: Offset) -> tuple[Border, ...]:
    """Return the borders that a footer keeps, unchecked."""
    return tuple(
        Border(Offset(base_offset + delta), ChainDigest(digest.hex()))
        for delta, digest in _BORDER.iter_unpack(b64decode(text, validate=True))
    )


def border_count(footer: pq.FileMetaData) -> int:
    """Return how many borders a file brings into a merge: those that it keeps, or its end."""
    text = (footer.metadata or {}).get(BORDERS, b"")
    return max(1, len(text) * 3 // 4 // _BORDER.size)


def read_borders(
    address: ReplicaAddress, merged: MergedSegment, options: StorageOptions
) -> tuple[Border, ...]:
    """Return the borders that a replica's merged segment keeps, after a check of the whole file;
    empty: it keeps none.

    Raises:
        CorruptLogError: The file is missing or damaged, or they are not those of the segment.
        KafkaStorageError: The root is another disk or none, or does not answer.
    """
    _, content = checked_content(address, merged.segment, options)
    try:
        return borders_in(content, merged)
    except CorruptLogError as claim:
        raise segment_error(address, merged.segment, options) from claim


def borders_in(content: bytes, merged: MergedSegment) -> tuple[Border, ...]:
    """Return the borders in the bytes of a merged segment.

    Raises:
        CorruptLogError: They are not those of the segment.
    """
    own = Border(merged.end_offset, merged.chain_digest)
    return decode_borders(content, merged.segment.file_name, merged.base_offset, own)


def decode_borders(
    content: bytes, name: str, base_offset: Offset, own: Border
) -> tuple[Border, ...]:
    """Return the borders in the bytes of the file `name` of a merged segment; empty: it keeps none.

    `base_offset`: where the segment begins. `own`: where it ends.

    Raises:
        CorruptLogError: The file is damaged, or they are not those of the segment.
    """
    text = (read_footer(content, name).metadata or {}).get(BORDERS)
    if text is None:
        return ()
    try:
        borders = unpack_borders(text, base_offset)
    except (ValueError, struct.error) as error:
        raise CorruptLogError("borders that can't be read", path=name) from error
    ends = [base_offset, *(each.offset for each in borders)]
    if own not in borders[-1:] or sorted(set(ends)) != ends:
        raise CorruptLogError("borders that are not those of the segment", path=name)
    return borders
