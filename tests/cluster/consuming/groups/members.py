"""Members of a group in this process: what they append, poll and share."""

import time

SHORT_SESSION = {"group.consumer.session.timeout.ms": 3000}
"""For groups of which somebody is to be fenced."""

WAIT_S = 240
"""Within which anything must come, processes on a busy machine too."""


def append(cluster, first, count):
    cluster.append("orders", [(str(each), str(each)) for each in range(first, first + count)])


def member(cluster, group="g", **options):
    return cluster.consumer("orders", group=group, **({"auto_offset_reset": "earliest"} | options))


def values(table):
    return [int(each) for each in table.column("value").to_pylist()]


def polled(until, *consumers):
    """Have consumers poll in turns until something holds; return what they have handed out."""
    found = [[] for _ in consumers]
    last = time.monotonic() + WAIT_S
    while not until():
        assert time.monotonic() < last, "it takes too long"
        for place, consumer in enumerate(consumers):
            found[place] += values(consumer.poll(20))
    return found


def lag_of(*consumers):
    return sum(one.current_lag(name) for one in consumers for name in one.assignment())


def shares(*consumers):
    return [len(each.assignment()) for each in consumers]


def wait_until(condition):
    last = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < last, "it takes too long"
        time.sleep(0.02)
