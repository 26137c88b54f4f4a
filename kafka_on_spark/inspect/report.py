"""Text tables for terminals and logs, the table of a topic, and words for what happened."""

from collections.abc import Iterable, Sequence
from typing import Final

from kafka_on_spark.service.describe.descriptions import PartitionDescription, TopicDescription
from kafka_on_spark.service.describe.partition_history import BrokerEvent
from kafka_on_spark.visible import visible

SEPARATOR: Final = " · "
_PARTITION_COLUMNS: Final = (
    "partition",
    "leader",
    "leader epoch",
    "replicas",
    "ISR",
    "log start",
    "high watermark",
    "log end",
)


def text_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return `rows` under `columns`, aligned; a column of numbers is aligned to the right."""
    lines = [[visible(str(cell)) for cell in row] for row in rows]
    places = range(len(columns))
    widths = [max([len(columns[at]), *(len(line[at]) for line in lines)]) for at in places]
    are_numbers = [bool(lines) and all(line[at].isdigit() for line in lines) for at in places]

    def aligned(line: Sequence[str]) -> str:
        cells = [
            line[at].rjust(widths[at]) if are_numbers[at] else line[at].ljust(widths[at])
            for at in places
        ]
        return SEPARATOR.join(cells).rstrip()

    return "\n".join(aligned(line) for line in (list(columns), *lines))


def broker_list(brokers: Iterable[int]) -> str:
    """Return brokers as people write them: "1 2 3", or "none"."""
    return " ".join(str(each) for each in brokers) or "none"


def event_name(event: BrokerEvent) -> str:
    """Return the name of what happened to a broker."""
    if event.state is None:
        return "unregistered"
    if event.is_registration:
        return "registered"
    return {"fenced": "fenced", "active": "back", "draining": "draining"}[event.state.value]


def topic_text(description: TopicDescription) -> str:
    """Return leaders, ISRs and offsets of a topic, a line each partition."""
    return text_table(_PARTITION_COLUMNS, [_row(each) for each in description.partitions])


def _row(partition: PartitionDescription) -> tuple[object, ...]:
    offsets = partition.offsets
    return (
        partition.partition,
        "none" if partition.leader is None else partition.leader,
        partition.leader_epoch,
        broker_list(partition.replicas),
        broker_list(partition.isr),
        offsets.log_start_offset,
        offsets.high_watermark,
        offsets.log_end_offset,
    )
