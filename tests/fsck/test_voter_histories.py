"""Histories of three voters that no commit of ours would make: each is found by its rule."""

from dataclasses import replace

import pytest

from kafka_on_spark.fsck.voter_trace import (
    VoterCommit,
    VoterTrace,
    committed_flaws,
    content_flaws,
    following_flaws,
    voter_flaws,
)
from kafka_on_spark.metadata.quorum.voter_table import (
    BatchKind,
    RaftBatch,
    Voter,
    VoterKey,
    VoterSet,
)

KEYS = [VoterKey(node, f"d{node}") for node in (1, 2, 3)]
VOTERS = VoterSet.of(Voter(key, f"/m{key.node_id}") for key in KEYS)
A, B, C = KEYS


def batch(start, end, epoch, write_id=None, **fields):
    return RaftBatch(start, end, epoch, write_id or f"{epoch}-{start}", **fields)


def added(*batches):
    return {f"{each.base_offset}-{each.write_id}": (each,) for each in batches}


def removed(*batches):
    return tuple(added(*batches))


BOOTSTRAP = batch(0, 1, 0, voters=VOTERS)
NO_OP, ONE, TWO = batch(1, 2, 1), batch(2, 4, 1), batch(4, 5, 1)
LOST = batch(5, 7, 1)
LATER, THREE = batch(5, 6, 2), batch(6, 7, 2)


def vote(epoch, key):
    return {"quorum_epoch": epoch, "votes": ((key, epoch),)}


def mark(epoch, key):
    return {"quorum_epoch": epoch, "leaders": ((key, epoch),)}


# A leads epoch 1 and fails with a tail; B leads epoch 2, C follows, and A is cut.
HEALTHY = {
    A: [
        {"added": added(BOOTSTRAP)},
        vote(1, A),
        {**mark(1, A), "added": added(NO_OP)},
        {"added": added(ONE)},
        {"added": added(TWO)},
        {"added": added(LOST)},
        {**mark(2, B), "removed": removed(LOST)},
        {"added": added(LATER, THREE)},
    ],
    B: [
        {"added": added(BOOTSTRAP)},
        vote(1, A),
        {**mark(1, A)},
        {"added": added(NO_OP, ONE)},
        {"added": added(TWO)},
        vote(2, B),
        {**mark(2, B), "added": added(LATER)},
        {"added": added(THREE)},
    ],
    C: [
        {"added": added(BOOTSTRAP)},
        vote(1, A),
        {**mark(1, A)},
        {"added": added(NO_OP, ONE, TWO)},
        vote(2, B),
        {**mark(2, B)},
        {"added": added(LATER, THREE)},
    ],
}


def traces(histories=HEALTHY):
    return [trace(key, commits) for key, commits in histories.items()]


def trace(key, commits):
    found = VoterTrace(key)
    for version, commit in enumerate(commits, start=1):
        found.take(VoterCommit(version=version, **commit))
    return found


def changed(key, place, **commit):
    """Return the histories with one commit of a voter another."""
    commits = [*HEALTHY[key]]
    commits[place] = {**commits[place], **commit}
    return {**HEALTHY, key: commits}


def without(key, place):
    return {**HEALTHY, key: [*HEALTHY[key][:place], *HEALTHY[key][place + 1 :]]}


def more(key, *commits):
    return {**HEALTHY, key: [*HEALTHY[key], *commits]}


def found_in(histories):
    """Return the ids and the sentences of what is found, in voters alone and between them."""
    read = traces(histories)
    alone = [(each.invariant, each.sentence) for one in read for each in one.findings.all()]
    return alone + [(each.invariant, each.sentence) for each in voter_flaws(read)]


def test_a_failover_with_a_tail_that_is_cut_is_as_it_should_be():
    assert found_in(HEALTHY) == []


# fmt: off
BAD = [
    pytest.param("I10", "begins at 8, the log ended at 7",   more(C, {"added": added(batch(8, 9, 2))}),                     id="a batch after a gap"),
    pytest.param("I10", "ends at 6, its batches end at 7",   more(C, {"log_end": 6}),                                       id="a counter of the end that is wrong"),
    pytest.param("I15", "says another state",                more(C, {"is_checkpoint": True, "added": added(BOOTSTRAP)}),   id="a checkpoint of another log"),
    pytest.param("Q1", "gives two votes in epoch 2",         more(C, vote(2, C)),                                           id="a second vote in an epoch"),
    pytest.param("Q1", "epoch 2 has 2 leaders",              changed(C, 5, leaders=((C, 2),), added=added(LATER)),          id="two leaders of an epoch"),
    pytest.param("Q1", "follows two leaders in epoch 2",     more(C, {"leaders": ((A, 2),)}),                               id="a second mark in an epoch"),
    pytest.param("Q2", "cut to 4, below 6",                  more(C, {"removed": removed(TWO, LATER, THREE)}),              id="a cut of what is proved"),
    pytest.param("Q2", "is merged, and the log proves only", more(C, {"is_merge": True, "removed": removed(THREE), "added": added(replace(THREE, kind=BatchKind.RUN))}), id="a merge of what may be cut"),
    pytest.param("Q4", "its epoch falls from 2 to 1",        more(C, {"quorum_epoch": 1}),                                  id="an epoch that falls"),
    pytest.param("Q4", "a vote is of epoch 1",               more(C, {"votes": ((A, 1),)}),                                 id="a vote in an old epoch"),
    pytest.param("Q4", "and its writer leads 2",             more(B, {"added": added(batch(7, 8, 1))}),                     id="a leader's batch of an old epoch"),
    pytest.param("Q4", "and the voter in 2",                 more(C, {"added": added(batch(7, 8, 3))}),                     id="a batch of an epoch not seen"),
    pytest.param("Q4", "the one before it of 2",             more(C, {"added": added(batch(7, 8, 1))}),                     id="epochs that fall along a log"),
    pytest.param("Q7", "two writes of epoch 1 end at 5",     changed(C, 3, added=added(NO_OP, ONE, batch(4, 5, 1, "x"))),   id="another write at a place"),
    pytest.param("Q7", "two writes of epoch 1 end at 4",     changed(C, 3, added=added(NO_OP, batch(2, 3, 1), batch(3, 4, 1, "1-2"), TWO)), id="another border in a write"),
    pytest.param("Q7", "follows one of epoch",               changed(C, 6, added=added(batch(5, 6, 1, "x"), THREE)),        id="another prefix"),
    pytest.param("Q8", "leads epoch 2 without",              changed(B, 6, added={}),                                       id="a mark without a no-op"),
    pytest.param("Q8", "leads epoch 2 without",              changed(B, 6, added=added(LATER, THREE)),                      id="a mark with a decision"),
    pytest.param("Q8", "has marked no leader in 1",          without(C, 2),                                                 id="batches without a mark"),
    pytest.param("Q8", "by the votes of 2:d2: no majority",  without(C, 4),                                                 id="a leader by its own vote"),
]
# fmt: on


@pytest.mark.parametrize("invariant, words, histories", BAD)
def test_what_must_not_be_is_found(invariant, words, histories):
    found = found_in(histories)

    assert [each for each in found if each[0] == invariant and words in each[1]], found


def test_a_log_that_contradicts_what_another_proves_is_found():
    """C lost what A and B proved committed, and took other decisions under a leader of its own."""
    other = [
        *HEALTHY[C][:2],
        mark(1, A),
        {"added": added(NO_OP, ONE)},
        vote(2, C),
        {**mark(2, C), "added": added(batch(4, 5, 2))},
        {"added": added(batch(5, 6, 2, "y"))},
    ]

    found = found_in({**HEALTHY, C: other})

    assert [each for each in found if each[0] == "Q2" and "is not what is in the log" in each[1]]


def test_votes_that_were_cleaned_away_are_not_missed():
    base = {"is_checkpoint": True, **mark(2, B), "added": added(BOOTSTRAP, NO_OP, ONE, TWO, LATER)}

    assert found_in({**HEALTHY, C: [base, {"added": added(THREE)}]}) == []


def test_a_voter_that_was_skipped_over_damage_is_not_blamed_for_what_it_hid():
    read = VoterTrace(C)
    for version, commit in enumerate(HEALTHY[C], start=1):
        if version == 5:
            read.is_damaged = True  # its vote in epoch 2
        else:
            read.take(VoterCommit(version=version, **commit))
    a, b, _ = traces()

    assert read.findings.all() == ()
    assert [*voter_flaws([a, b, read])] == []


def test_a_checkpoint_after_damage_says_how_the_log_goes_on():
    (_, _, whole), read = traces(), short(C, 5)
    read.is_damaged = True
    newest = added(BOOTSTRAP, NO_OP, ONE, TWO, LATER, THREE)
    read.take(VoterCommit(version=9, is_checkpoint=True, **mark(2, B), added=newest))

    assert read.log == whole.log
    assert not read.is_damaged
    assert read.findings.all() == ()


# What is committed, and how far the leader is.


def short(key, count):
    return trace(key, HEALTHY[key][:count])


def test_what_is_proved_must_be_on_a_majority():
    a, b, c = traces()
    proved = b.log.batch_before(b.log.proved_end)
    assert proved == replace(LATER, kind=BatchKind.NO_OP)

    assert [*committed_flaws(VOTERS, proved, [b, a, c])] == []
    assert [*committed_flaws(VOTERS, proved, [b, short(A, 5), c])] == []
    (lost,) = committed_flaws(VOTERS, proved, [b, short(A, 5), short(C, 4)])
    (unknown,) = committed_flaws(VOTERS, proved, [b, short(C, 4)])

    assert (lost.invariant, unknown.invariant) == ("Q2", None)
    assert "only 2:d2 of 3 voters hold it" in lost.sentence
    assert "is not known" in unknown.sentence


def test_nobody_has_more_than_the_leader_that_it_follows():
    a, b, c = traces()

    assert [*following_flaws(b, [a, c])] == []
    (flaw,) = following_flaws(short(B, 7), [short(A, 5), c])

    assert (flaw.invariant, flaw.key) == ("Q2", B)
    assert flaw.sentence.endswith("its own log ends at 6: it went back")


def test_who_follows_a_leader_has_the_beginning_of_its_log():
    """A marked the leader of epoch 2, and was not cut."""
    _, b, c = traces()
    uncut = trace(A, [*HEALTHY[A][:6], mark(2, B)])

    (flaw,) = following_flaws(b, [uncut, c])

    assert (flaw.invariant, flaw.key) == ("Q7", A)
    assert "what its log ends with at 7 is not in the leader's" in flaw.sentence


def test_committed_batches_have_the_same_records():
    mine, others = {0: "a", 1: "b", 9: "tail"}, {0: "a", 1: "x"}

    (flaw,) = content_flaws(mine, others, C, B)

    assert (flaw.invariant, flaw.key) == ("Q7", C)
    assert flaw.sentence == "the batch at 1 has other records than on voter 2:d2"
