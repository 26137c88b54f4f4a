"""The chain over a log: one digest at each border that stands for everything below it.

The digest of a segment is computed from the digest before it, the segment's header, and the digest
in its file's name. So two logs whose chains compute and agree at an offset are the same below it. A
digest in a header is only a claim. Code that proves a log, counts its end, takes from it or audits
it computes the chain; a digest that does not compute is an error of the table that holds it. That
of a merged segment can't be computed and is taken: the chain goes on from it.
"""

from collections.abc import Iterable
from dataclasses import replace
from hashlib import blake2b
from json.encoder import encode_basestring_ascii as as_json
from typing import Final

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import NO_CHAIN, ChainDigest, TopicId
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.log.merged_segment import LogPart

DIGEST_BYTES: Final = 16
_HALF_BITS: Final = 64
_HALF: Final = 1 << _HALF_BITS
_HIGHEST: Final = 1 << (_HALF_BITS - 1)


def batch_digests(
    before: ChainDigest, topic_id: TopicId, partition: int, batch: Batch
) -> tuple[ChainDigest, ...]:
    """Return the chain digest at the end of each segment of `batch`, computed from `before`.

    The batch's own digests are not read. Each digest is BLAKE2b of 16 bytes over one JSON array in
    ASCII without spaces; the text is built here because `json.dumps` takes several times as long.
    """
    stamp = batch.producer
    where = f"{as_json(topic_id)},{partition}"
    producer = (
        "null,null,null,null"
        if stamp is None
        else f"{as_json(stamp.producer_id)},{stamp.producer_epoch},{stamp.sequence},"
        f"{stamp.payload_digest}"
    )
    header = (
        f"{batch.base_offset},{batch.record_count},{batch.partition_count},{batch.leader_epoch},"
        f"{producer},{int(batch.has_append_time)},{batch.appended_at_ms},null"
    )
    digests = []
    base_offset = int(batch.base_offset)
    for segment in batch.segments:
        end_offset = base_offset + segment.record_count
        text = f'["{before}",{where},{base_offset},{end_offset},{header},{as_json(segment.digest)}]'
        digest = blake2b(text.encode("ascii"), digest_size=DIGEST_BYTES).hexdigest()
        before = ChainDigest(digest)
        digests.append(before)
        base_offset = end_offset
    return tuple(digests)


def chained(before: ChainDigest, topic_id: TopicId, partition: int, batch: Batch) -> Batch:
    """Return `batch` with its chain digests, computed from the digest `before` it."""
    digests = batch_digests(before, topic_id, partition, batch)
    return replace(batch, chain_digests=digests)


def check_chain(
    before: ChainDigest, topic_id: TopicId, partition: int, batches: Iterable[LogPart]
) -> ChainDigest:
    """Check that the digests in the headers of `batches` compute; return the one at their end.

    Raises:
        CorruptLogError: One does not. The table that holds the headers is bad.
    """
    for batch in batches:
        if isinstance(batch, Batch) and batch.chain_digests != batch_digests(
            before, topic_id, partition, batch
        ):
            raise CorruptLogError(
                "the chain digest of a batch does not compute",
                base_offset=batch.base_offset,
                claimed=batch.chain_digests,
            )
        before = batch.chain_digest
    return before


def halves(digest: ChainDigest) -> tuple[int, int]:
    """Return a digest as two signed numbers of 64 bits, high and low, for counters."""
    high, low = divmod(int(digest, 16), _HALF)
    return _signed(high), _signed(low)


def from_halves(high: int | None, low: int | None) -> ChainDigest:
    """Return the digest in two counters; without them, that of an empty chain."""
    if high is None or low is None:
        return NO_CHAIN
    return ChainDigest(f"{(high % _HALF) * _HALF + low % _HALF:032x}")


def _signed(half: int) -> int:
    return half - _HALF if half >= _HIGHEST else half
