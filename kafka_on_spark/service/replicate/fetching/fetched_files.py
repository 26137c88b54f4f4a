"""The files of what a follower takes: copied under names of its fence, or written from a part.

A follower's names are its own: a path is added to a table only under the fence in its name (I26).
So a batch that was cut and comes back under a later leadership comes under another path than the
one that a cleaner removes.
"""

from collections.abc import Sequence

from kafka_on_spark.errors import CorruptLogError, KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.merged_segment import LogPart
from kafka_on_spark.ports.replicas import SegmentStore
from kafka_on_spark.service.replicate.fetching.fetch_outcomes import FollowerRefused, LeaderRefused


def bring_files(
    store: SegmentStore,
    source: ReplicaAddress,
    target: ReplicaAddress,
    parts: Sequence[LogPart],
    *,
    start_offset: Offset,
    leader_epoch: LeaderEpoch,
) -> list[LogPart] | LeaderRefused | FollowerRefused:
    """Have the files of neighbouring parts of `source`'s log in `target`'s folder; return the parts
    as `target`'s log names them.

    What has the name of an append under this epoch keeps it: it was shipped there. Of a merged
    segment that begins below `start_offset`, what is from there on becomes a segment of its own. A
    source that is damaged, or can't be read, is the leader's.
    """
    try:
        return _brought(store, source, target, parts, start_offset, leader_epoch)
    except CorruptLogError as error:
        return LeaderRefused(error)
    except KafkaOnSparkError as error:
        is_storage = isinstance(error, KafkaStorageError)
        is_of_leader = is_storage and error.context.get("broker_id") == source.broker_id
        return LeaderRefused(error) if is_of_leader else FollowerRefused(error)


def _brought(
    store: SegmentStore,
    source: ReplicaAddress,
    target: ReplicaAddress,
    parts: Sequence[LogPart],
    start_offset: Offset,
    leader_epoch: LeaderEpoch,
) -> list[LogPart]:
    is_cut = parts[0].base_offset < start_offset
    whole = parts[1:] if is_cut else parts
    brought = [part.named_under(leader_epoch) for part in whole]
    segments, named = _segments_of(whole), _segments_of(brought)
    names = None if named == segments else [each.file_name for each in named]
    store.copy(source, target, segments, names)
    if not is_cut:
        return brought
    rest = store.rewrite(
        source,
        target,
        parts[:1],
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        end_offset=parts[0].end_offset,
    )
    return [rest, *brought]


def _segments_of(parts: Sequence[LogPart]) -> list[Segment]:
    return [segment for part in parts for segment in part.segments]
