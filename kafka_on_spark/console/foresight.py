"""What would happen if brokers died, as plain values."""

from typing import Any, Final

from kafka_on_spark.observe.what_if import Forecast, PartitionForecast

LISTED_MAX: Final = 2000
"""Partitions that are listed, the worst first; all are counted."""

View = dict[str, Any]


def forecast_view(found: Forecast) -> View:
    """Return a forecast: its figures, how leaders would move, and the partitions."""
    worst = sorted(found.partitions, key=lambda each: (_severity(each), each.name))
    return {
        "offset": found.offset,
        "brokers": found.brokers,
        "counts": [
            ["leaderships that would move", len(found.moved)],
            ["partitions without a leader", len(found.offline)],
            ["partitions that would refuse acks=all", len(found.under_min_isr)],
            ["partitions with one copy left", len(found.on_last_copy)],
            ["records at risk", found.records_at_risk],
        ],
        "leaders": [
            [broker, found.leaders_before[broker], found.leaders_after.get(broker, 0)]
            for broker in found.leaders_before
        ],
        "partitions": [_partition(each) for each in worst[:LISTED_MAX]],
        "more": max(len(worst) - LISTED_MAX, 0),
    }


def _severity(each: PartitionForecast) -> int:
    if each.is_offline:
        return 0
    return 1 if each.is_under_min_isr else 2


def _partition(each: PartitionForecast) -> View:
    return {
        "name": str(each.name),
        "leader": [each.leader_before, each.leader_after],
        "isr": [each.isr_before, each.isr_after],
        "copies": each.copies_left,
        "atRisk": each.records_at_risk,
        "words": [
            words
            for words, is_so in (
                ("no leader", each.is_offline),
                ("refuses acks=all", each.is_under_min_isr),
                ("another leader", each.is_moved),
                ("fewer in sync", len(each.isr_after) < len(each.isr_before)),
            )
            if is_so
        ],
    }
