"""Rules of sequences of Kafka's clients, switched off one at a time."""

from kafka_on_spark.log import producer_state
from tests.simulation.mutants.protocol_mutants import Mutant


def _anything_follows(last_sequence, record_count, sequence):
    return sequence


def _stands_never(stands, record_count, producer, end):
    return False


CLIENT_MUTANTS = [
    Mutant(
        "what a client sends follows its last append",
        ((producer_state, "next_sequence", _anything_follows),),
        invariant="I11 consecutive sequences",
    ),
    Mutant(
        "a batch that comes again is known by its sequences",
        (
            (producer_state, "_has_range", _stands_never),
            (producer_state, "next_sequence", _anything_follows),
        ),
        invariant="H3 one offset a value",
    ),
]
