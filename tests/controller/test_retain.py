"""Retention's decision: on the partition as it is now, with the reason in words and figures."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.log_start import RetentionReport, retain
from kafka_on_spark.log.retention import Retained, RetentionLimits
from tests.builders import KEY, NOW_MS, TOPIC_ID, image_of, partition

SECOND = PartitionKey(TOPIC_ID, 1)
CONFIGS = {"retention.ms": "1000", "retention.bytes": "500"}
LIMITS = RetentionLimits(retention_ms=1000, retention_bytes=500)


def image(*partitions, configs=CONFIGS):
    return image_of(*(partitions or [registered()]), configs=configs)


def registered(**fields):
    return partition("1 2 3", **{"hw": 8, "hw_epoch": 1, "leo": 10, "start": 2, **fields})


def look(offset=5, *, key=KEY, expired_to=4, **fields):
    found = Retained(
        log_start_offset=offset,
        expired_to=expired_to,
        newest_ms=NOW_MS - 1500,
        removed_bytes=300,
        kept_bytes=600,
        expires_at_ms=None,
    )
    seen = RetentionReport(
        key=key,
        leader_epoch=5,
        partition_epoch=9,
        log_start_offset=2,
        limits=LIMITS,
        now_ms=NOW_MS,
        found=found,
    )
    return replace(seen, **fields)


def test_the_cause_has_the_settings_and_the_figures():
    [record] = retain(image(), [look(5)]).records

    assert record.cause == (
        "retention deletes 3 records below 5, 300 bytes: those below 4 are older than"
        " retention.ms=1000, the newest of them 1500 ms; those from 4 on are beyond"
        " retention.bytes=500, and 600 bytes are left"
    )


# fmt: off
NEXT = [  # expires at            words of the cause, or None
    pytest.param(NOW_MS + 5000,   "; the next ones are due at 2023-11-14 22:13:25 UTC", id="soon"),
    pytest.param(2**63,           None,                                                 id="in-millions-of-years"),
]
# fmt: on


@pytest.mark.parametrize("expires_at_ms, words", NEXT)
def test_the_cause_says_when_the_next_records_are_due(expires_at_ms, words):
    seen = look(5)
    seen = replace(seen, found=replace(seen.found, expires_at_ms=expires_at_ms))

    [record] = retain(image(), [seen]).records

    assert record.cause.endswith(words or "600 bytes are left")


# fmt: off
STALE = [  # image now                                                     what was seen
    pytest.param(image(registered(epoch=6)),                               look(),                   id="another-leader-since"),
    pytest.param(image(registered(version=10)),                            look(),                   id="another-isr-since"),
    pytest.param(image(configs={**CONFIGS, "retention.ms": "9000"}),       look(),                   id="other-settings-since"),
    pytest.param(image(configs={**CONFIGS, "cleanup.policy": "compact"}),  look(),                   id="only-compacted-since"),
    pytest.param(image(),                                                  look(9),                  id="above-the-high-watermark"),
    pytest.param(image(registered(start=6)),                               look(5),                  id="below-the-log-start-of-now"),
    pytest.param(image(),                                                  look(key=SECOND),         id="partition-that-is-gone"),
]
# fmt: on


@pytest.mark.parametrize("now, seen", STALE)
def test_a_look_at_what_has_changed_since_leads_to_nothing(now, seen):
    result = retain(now, [seen])

    assert (list(result.records), result.response) == ([], {})
