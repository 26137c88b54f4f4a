"""Gives sent records their answers: results of futures, and calls of callbacks."""

import copy
import logging
from collections.abc import Iterable
from concurrent.futures import InvalidStateError

from kafka_on_spark.service.append.produce.accumulator import held_bytes
from kafka_on_spark.service.append.produce.delivery import Outcome
from kafka_on_spark.service.append.produce.sent_record import RecordMetadata, SentRecord

log = logging.getLogger(__name__)


def settle(outcomes: Iterable[Outcome]) -> int:
    """Give futures and callbacks their answers, in the order of sends; return how many bytes of
    buffer.memory the records held. A record that has an answer already keeps it, and counts 0."""
    held = 0
    for outcome in outcomes:
        held += _settle_standing(outcome) if outcome.error is None else _settle_failed(outcome)
    return held


def failed(topic: str, records: Iterable[SentRecord], error: Exception) -> Outcome:
    """Return the outcome of the records that have no answer yet, if they fail with `error`."""
    left = [each for each in records if not each.done()]
    return Outcome(topic=topic, partition=None, records=left, error=error)


def _settle_standing(outcome: Outcome) -> int:
    topic, partition, base = outcome.topic, outcome.partition, outcome.base_offset
    assert partition is not None, "what stands has a partition"
    append_us = None if outcome.append_time_ms is None else outcome.append_time_ms * 1000
    held = 0
    for place, record in enumerate(outcome.records):
        metadata = RecordMetadata(
            topic,
            partition,
            None if base is None else base + place,
            record.timestamp_us if append_us is None else append_us,
        )
        if _tell(topic, record, metadata, None):
            held += held_bytes(record)
            record.forget()
    return held


def _settle_failed(outcome: Outcome) -> int:
    held = 0
    for record in outcome.records:  # which forget nothing: an append with them may be under way
        # A copy, since an error that is raised twice collects both tracebacks.
        if _tell(outcome.topic, record, None, copy.copy(outcome.error)):
            held += held_bytes(record)
    return held


def _tell(
    topic: str, record: SentRecord, metadata: RecordMetadata | None, error: Exception | None
) -> bool:
    """Give a record its answer; return False if it has one, because `close` has cut it off.

    Callbacks may raise what they want, SystemExit too: it is their fault, and other records go on.
    """
    try:
        if metadata is None:
            record.set_exception(error)
        else:
            record.set_result(metadata)
    except InvalidStateError:
        return False
    except BaseException:
        log.exception("a callback of a future of a record for %s failed", topic)
    if record.callback is not None:
        try:
            record.callback(metadata, error)
        except BaseException:
            log.exception("a callback of a record for %s failed", topic)
    return True
