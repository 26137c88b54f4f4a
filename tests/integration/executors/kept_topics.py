"""Topics that have upkeep to do: a merged, a retained and a compacted one, and what is read of them."""

from tests.cluster.disks import isr_of

BROKERS = [1, 2, 3]


def add_topics_to_keep(cluster):
    """Make topics that have upkeep to do; return what was appended to each."""
    compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    assignment = {0: BROKERS, 1: [2, 3, 1]}
    for name, configs in (("merged", {}), ("prices", compacted), ("retained", {})):
        cluster.create_topic(name, replica_assignment=assignment, configs=configs)
    numbers = range(36)
    for number in numbers:
        rows = [
            {"key": b"%d" % (number % 3), "value": b"%d" % number, "partition": p} for p in (0, 1)
        ]
        for name in ("merged", "prices", "retained"):
            cluster.append(name, rows)
    cluster.alter_topic_configs("retained", {"retention.bytes": 5000})
    return numbers


def check_kept(disks, numbers):
    """Check what is read of each topic, and the tables."""
    cluster = disks.open()
    for number in (0, 1):
        assert values_in(cluster, "merged", number) == list(numbers)
        assert values_in(cluster, "prices", number) == list(numbers)[-3:]
        left = values_in(cluster, "retained", number)
        assert 0 < len(left) < len(numbers)
        assert left == list(numbers)[-len(left) :]
        for name in ("merged", "prices", "retained"):
            assert isr_of(cluster, name, number) == BROKERS
    assert cluster.fsck(deep=True).findings == ()


def values_in(cluster, topic, number):
    rows = cluster.read(topic).to_pylist()
    return [int(row["value"]) for row in rows if row["partition"] == number]
