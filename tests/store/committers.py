"""Processes that commit, and say what they were told."""

import random
import time

from kafka_on_spark.base.errors import CommitConflictError
from kafka_on_spark.store.delta import delta_log
from tests.store.tables import commit, opened


def begin_together(all_ready):
    """Wait for the other processes, which have imported all of this, too: on a slow machine the first
    would else be done before the last begins."""
    all_ready.wait()


def contend(arguments):
    """Win `wins` commits against others; return (version, write id) of what this process was told.

    The write id stands in `_write_ids`, which is what is compared with the log.
    """
    uri, seed, wins = arguments
    noted = note_write_ids()
    dice = random.Random(seed)
    log = opened(uri)
    won, lost = [], 0
    while len(won) < wins:
        version = log.refresh()
        try:
            commit(log, version)
        except CommitConflictError:
            lost += 1
            time.sleep(dice.random() * 0.03)
            continue
        won.append((version + 1, noted[-1]))
        log.checkpoint_if_due()
        # A pause lets the others in: what is tested is racing, not starving.
        time.sleep(dice.random() * 0.02)
    return won, lost


def note_write_ids():
    """Return a list that grows by the write id of each commit that is begun."""
    noted = []
    encode = delta_log.encode_commit

    def encode_and_note(*, write_id, **others):
        noted.append(write_id)
        return encode(write_id=write_id, **others)

    delta_log.encode_commit = encode_and_note
    return noted
