"""Says in words what changed between two moments of a cluster: the difference of two images.

A change that many partitions share is one line, since ten thousand lines can't be read.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kafka_on_spark.ids import BrokerId, PartitionKey
from kafka_on_spark.inspect.report import broker_list
from kafka_on_spark.metadata.broker import BrokerRegistration, BrokerState
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.query.moments import in_seconds
from kafka_on_spark.visible import visible


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes between two moments.

    Attributes:
        heading: The two moments.
        lines: One sentence a change; none if nothing changed.
    """

    heading: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        shown = self.lines or ("nothing changed",)
        return "\n".join([self.heading, *(f"  {visible(line)}" for line in shown)])

    __repr__ = __str__


def changes(before: MetadataImage, after: MetadataImage) -> Changes:
    """Return the changes from `before` to `after`.

    `before` may be the later moment: then the sentences say what going back would undo.
    """
    heading = (
        f"From {in_seconds(before.time_ms)} (metadata offset {before.offset})"
        f" to {in_seconds(after.time_ms)} (metadata offset {after.offset}):"
    )
    lines = [
        *_brokers(before, after),
        *_settings("the cluster", before.configs, after.configs),
        *_topics(before, after),
        *_others(before, after),
    ]
    return Changes(heading, tuple(lines))


def _brokers(before: MetadataImage, after: MetadataImage) -> Iterator[str]:
    for broker_id in sorted({*before.brokers, *after.brokers}):
        was, now = before.brokers.get(broker_id), after.brokers.get(broker_id)
        if was is None and now is not None:
            yield f"broker {broker_id} was registered, with the root {now.root}"
        elif now is None:
            yield f"broker {broker_id} was unregistered"
        elif was is not None and was != now:
            yield from _broker(was, now)


_BECAME = {
    BrokerState.FENCED: "was fenced",
    BrokerState.ACTIVE: "is active again",
    BrokerState.DRAINING: "is being drained",
}


def _broker(was: BrokerRegistration, now: BrokerRegistration) -> Iterator[str]:
    name = f"broker {now.broker_id}"
    if was.directory_id != now.directory_id:
        yield f"{name} has another disk, with the root {now.root}"
    if was.state is not now.state:
        yield f"{name} {_BECAME[now.state]}"
    if was.rack != now.rack:
        yield f"{name} is in rack {now.rack or 'none'} instead of {was.rack or 'none'}"


def _settings(whose: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*before, *after}):
        was, now = before.get(name), after.get(name)
        if now is None:
            yield f"{whose}: {name} is no longer set (it was {was})"
        elif was is None:
            yield f"{whose}: {name} is set to {now}"
        elif was != now:
            yield f"{whose}: {name} is {now} instead of {was}"


def _topics(before: MetadataImage, after: MetadataImage) -> Iterator[str]:
    for topic in sorted(before.topics.values(), key=lambda each: each.name):
        if topic.topic_id not in after.topics:
            yield f"topic {topic.name} was deleted, with {_partitions(len(topic.partitions))}"
    for topic in sorted(after.topics.values(), key=lambda each: each.name):
        was = before.topics.get(topic.topic_id)
        if was is None:
            verb = "created again" if topic.name in before.topic_ids else "created"
            yield f"topic {topic.name} was {verb}, with {_partitions(len(topic.partitions))}"
        elif was is not topic:
            yield from _topic(was, topic)


def _partitions(count: int) -> str:
    return f"{count:,} partition{'' if count == 1 else 's'}"


def _topic(was: TopicImage, now: TopicImage) -> Iterator[str]:
    added = len(now.partitions) - len(was.partitions)
    if added:
        verb = "added" if added > 0 else "removed"
        yield f"{now.name}: {_partitions(abs(added))} {verb}, {len(now.partitions):,} in all"
    yield from _settings(now.name, was.configs, now.configs)
    alike: dict[str, list[int]] = defaultdict(list)
    committed = 0
    for number, partition in sorted(now.partitions.items()):
        old = was.partitions.get(number)
        if old is None or old is partition or old == partition:
            continue
        if _is_another(old, partition):
            alike["another partition has the number: it was removed and added again"].append(number)
            continue
        committed += max(partition.high_watermark - old.high_watermark, 0)
        for sentence in _partition(old, partition):
            alike[sentence].append(number)
    for sentence, numbers in alike.items():
        yield f"{now.name}-{_numbers(numbers)}: {sentence}"
    if committed:
        yield f"{now.name}: {committed:,} record{'' if committed == 1 else 's'} committed"


def _numbers(numbers: Sequence[int]) -> str:
    """Return "3", or "{0…3, 7}" for several numbers, with runs shortened."""
    if len(numbers) == 1:
        return str(numbers[0])
    breaks = [0, *(i + 1 for i, (a, b) in enumerate(pairwise(numbers)) if b != a + 1)]
    runs = [numbers[a:b] for a, b in pairwise([*breaks, len(numbers)])]
    words = [
        ", ".join(str(each) for each in run) if len(run) < 3 else f"{run[0]}…{run[-1]}"
        for run in runs
    ]
    more = f", … ({len(numbers)} in all)" if len(words) > 12 else ""
    return "{" + ", ".join(words[:12]) + more + "}"


def _is_another(was: PartitionRegistration, now: PartitionRegistration) -> bool:
    """Return whether a partition was removed and added again: generations then differ by more than
    there were elections."""
    generations = now.unclean_generation - was.unclean_generation
    return abs(generations) > abs(now.leader_epoch - was.leader_epoch)


def _partition(was: PartitionRegistration, now: PartitionRegistration) -> Iterator[str]:
    yield from _leader(was, now)
    if was.isr != now.isr:
        yield from _members("ISR", was.isr, now.isr)
    if was.elr != now.elr and now.elr:
        yield f"{_brokers_named(sorted(now.elr))} may lead though out of sync"
    if was.is_reassigning != now.is_reassigning:
        verb = "is being reassigned" if now.is_reassigning else "reassignment ended"
        yield f"{verb}, from {broker_list(was.replicas)} to {broker_list(now.target_replicas)}"
    elif was.replicas != now.replicas:
        yield f"replicas are {broker_list(now.replicas)} instead of {broker_list(was.replicas)}"
    if now.high_watermark < was.high_watermark:
        yield f"the high watermark went back, from {was.high_watermark} to {now.high_watermark}"
    yield from _deletions(was, now)


def _deletions(was: PartitionRegistration, now: PartitionRegistration) -> Iterator[str]:
    if now.log_start_offset > was.log_start_offset:
        yield f"records below {now.log_start_offset} were deleted"
    if now.compaction.compacted_below > was.compaction.compacted_below:
        yield f"compacted below {now.compaction.compacted_below}"
    if now.compaction.tombstones_below > was.compaction.tombstones_below:
        yield f"tombstones below {now.compaction.tombstones_below} were deleted"


def _leader(was: PartitionRegistration, now: PartitionRegistration) -> Iterator[str]:
    how = ""
    if now.unclean_generation > was.unclean_generation:
        how = ", by an unclean election: records may be lost"
    between = now.leader_epoch - was.leader_epoch
    if was.leader != now.leader:
        names = [
            "nobody" if each is None else f"broker {each}" for each in (was.leader, now.leader)
        ]
        yield f"{names[1]} leads instead of {names[0]}{how}"
    elif between > 0 and now.leader is not None:
        elections = "an election" if between == 1 else f"{between} elections"
        yield f"broker {now.leader} leads again after {elections}{how}"


def _members(what: str, before: Iterable[BrokerId], after: Iterable[BrokerId]) -> Iterator[str]:
    left, joined = sorted(set(before) - set(after)), sorted(set(after) - set(before))
    words = []
    if left:
        words.append(f"{_brokers_named(left)} left")
    if joined:
        words.append(f"{_brokers_named(joined)} joined")
    yield f"{' and '.join(words)} the {what}, which is {broker_list(sorted(after))}"


def _brokers_named(brokers: Sequence[BrokerId]) -> str:
    return f"broker{'s' if len(brokers) > 1 else ''} {' and '.join(str(each) for each in brokers)}"


def _others(before: MetadataImage, after: MetadataImage) -> Iterator[str]:
    epochs = [
        -1 if each.controller is None else each.controller.controller_epoch
        for each in (before, after)
    ]
    if epochs[0] != epochs[1]:
        count = abs(epochs[1] - epochs[0])
        noun = "controllership" if count == 1 else "controllerships"
        yield f"{count:,} {noun} began, the last in epoch {epochs[1]}"
    runs = sum(before.producers.get(each) != epoch for each, epoch in after.producers.items())
    if runs:
        yield f"{runs:,} producer{'' if runs == 1 else 's'} began a run"
    expired = len(before.producers.keys() - after.producers.keys())
    if expired:
        yield f"{expired:,} producer id{'' if expired == 1 else 's'} expired"
    moved: dict[str, int] = defaultdict(int)
    for (group, key), position in after.groups.items():
        moved[group] += before.groups.get((group, key)) != position
    for group, count in sorted(moved.items()):
        if count:
            yield f"group {group} moved on in {_partitions(count)}"
    yield from _group_members(before, after)


def _group_members(before: MetadataImage, after: MetadataImage) -> Iterator[str]:
    """Say who has joined and left groups, and how many partitions have another owner."""
    for group in sorted({*before.consumer_groups, *after.consumer_groups}):
        was, now = (_owners(each, group) for each in (before, after))
        for verb, names in (("joined", now.keys() - was.keys()), ("left", was.keys() - now.keys())):
            if names:
                yield f"{len(names)} member{'' if len(names) == 1 else 's'} {verb} group {group}"
        taken = sum(len(keys - was.get(name, frozenset())) for name, keys in now.items())
        if taken:
            yield f"group {group} has other owners of {_partitions(taken)}"


def _owners(image: MetadataImage, group: str) -> dict[str, frozenset[PartitionKey]]:
    known = image.consumer_groups.get(group)
    return {} if known is None else {name: each.owned for name, each in known.members.items()}
