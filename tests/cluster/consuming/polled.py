"""What consumers hand out within the time that a busy machine needs."""

SOON = 120_000
"""Milliseconds within which anything must come, on a busy machine too."""


def values(table):
    return table.column("value").to_pylist()


def drained(consumer, count):
    found = []
    while len(found) < count:
        table = consumer.poll(SOON)
        assert table.num_rows, f"{count - len(found)} records did not come"
        found += values(table)
    return found
