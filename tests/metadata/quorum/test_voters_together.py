"""What follows from several voters' tables."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import (
    DuplicateVoterError,
    InconsistentClusterError,
    InconsistentClusterIdError,
    InvalidRequestError,
    InvalidRootError,
    QuorumUnavailableError,
    VoterNotFoundError,
)
from kafka_on_spark.metadata.quorum.description import voter_state
from kafka_on_spark.metadata.quorum.elector import bootstrap_id, check_beginning, check_cluster_ids
from kafka_on_spark.metadata.quorum.forcing import check_may_force, first_epoch_after, force
from kafka_on_spark.metadata.quorum.raft import (
    EPOCHS_OF_A_GENERATION,
    Candidacy,
    Outcome,
    Waiting,
    check_generation,
    check_generations,
    decide_candidacy,
    generation_of,
    is_election_due,
    is_stranded,
    newest_leader,
    outcome_of,
    view_of,
)
from kafka_on_spark.metadata.quorum.voter_changes import add_voter, is_caught_up, remove_voter
from kafka_on_spark.metadata.quorum.voter_table import (
    BatchKind,
    OffsetAndEpoch,
    RaftBatch,
    RaftLog,
    Voter,
    VoterSet,
    VoterTable,
    newest_voters,
)
from tests.metadata.quorum.voters import BOOTSTRAP, VOTERS, key, log, table, voter

LEADER = table(0, 1, 3, 3, leader=0)


def seen(*tables, leader=LEADER):
    view = view_of(leader)
    for each in tables:
        view = view.seen(each)
    return view


# fmt: off
SEEN = [        # what was seen beside the leader's table               counted
    pytest.param([],                                                    None, id="nobody"),
    pytest.param([table(1, 1, 3, 3, leader=0)],                         4,    id="a voter with all"),
    pytest.param([table(1, 1, 3, leader=0)],                            3,    id="a voter with the no-op"),
    pytest.param([table(1, 1, epoch=3, leader=0)],                      None, id="nothing of the epoch"),
    pytest.param([table(1, 1, 3, 3, epoch=3, vote=0)],                  None, id="no mark"),
    pytest.param([table(1, 1, 3, 3, epoch=4, leader=0)],                None, id="another epoch"),
    pytest.param([table(3, 1, 3, 3, leader=0)],                         None, id="no voter"),
    pytest.param([table(1, 1, 3, leader=0), table(2, 1, 3, 3, leader=0)], 4,  id="two voters"),
]
# fmt: on


@pytest.mark.parametrize("others, counted", SEEN)
def test_committed_is_what_a_majority_was_seen_to_hold(others, counted):
    assert seen(*others).counted_end == counted


def test_what_the_log_proves_confirms_no_read():
    leader = table(0, 1, 3, leader=0)

    assert not seen(leader=leader).is_confirmed
    assert seen(table(1, 1, 3, leader=0), leader=leader).is_confirmed
    assert not seen(table(1, 1, 3, leader=0)).is_confirmed


def test_what_was_seen_at_different_times_is_enough_and_stands():
    view = seen(table(1, 1, 3, 3, leader=0))

    assert view.seen(table(1, 1, 3, 3, epoch=4)).counted_end == 4
    assert view.seen(table(1, 1, 3, leader=0)).counted_end == 4


def test_two_leaders_of_the_newest_epoch_are_an_error():
    tables = {key(0): table(0, 1, epoch=3, leader=0), key(2): table(2, 1, epoch=3, leader=2)}

    with pytest.raises(
        InconsistentClusterError, match="epoch 3 has two leaders, voters 0:d0 and 2"
    ):
        newest_leader(tables)
    later = {**tables, key(1): table(1, 1, epoch=4, leader=1)}
    assert newest_leader(later) == key(1)


def waiting(epoch=3, ends=None):
    return Waiting(1_000, epoch, ends or {})


def readable(*tables):
    return {each.key: each for each in tables}


def test_an_election_is_due_once_the_leaders_root_has_failed_for_the_fetch_timeout():
    assert not is_election_due(waiting(), 2_999, 2_000)
    assert is_election_due(waiting(), 3_000, 2_000)


def test_the_best_log_stands_in_the_epoch_after_the_highest():
    shorter, longer = table(1, 1, 3, leader=0), table(2, 1, 3, 3, leader=0)

    chosen = decide_candidacy(VOTERS, readable(shorter, longer), waiting())
    assert chosen == Candidacy(key(2), 4)
    above = table(1, 1, epoch=7)
    assert decide_candidacy(VOTERS, readable(above, longer), waiting()).epoch == 8


# fmt: off
STANDS_IN_7 = [     # the other readable voter, beside a candidate of epoch 7                  epoch
    pytest.param(table(2, 1, epoch=3, leader=0),                                    7, id="free to vote"),
    pytest.param(table(2, 1, epoch=7, vote=1),                                      7, id="has voted for it"),
    pytest.param(table(2, 1, epoch=7, vote=2),                                      8, id="stands, too"),
    pytest.param(table(2, 1, epoch=7, vote=0),                                      8, id="has voted otherwise"),
    pytest.param(table(2, 1, epoch=9),                                              10, id="is above"),
]
# fmt: on


@pytest.mark.parametrize("other, epoch", STANDS_IN_7)
def test_an_election_that_another_began_is_ended_if_it_may_be_won(other, epoch):
    stands = table(1, 1, epoch=7, vote=1)

    chosen = decide_candidacy(VOTERS, readable(stands, other), waiting())

    assert chosen == Candidacy(key(1), epoch)


def test_a_candidate_with_a_worse_log_is_passed_over():
    tables = readable(table(1, 1, epoch=7, vote=1), table(2, 1, 3, 3, leader=0))

    assert decide_candidacy(VOTERS, tables, waiting()) == Candidacy(key(2), 8)


def test_of_equal_logs_the_lowest_id_stands():
    tables = readable(table(2, 1), table(1, 1))

    assert decide_candidacy(VOTERS, tables, waiting(1)).key == key(1)


def test_nobody_stands_while_a_voter_hears_the_leader():
    tables = readable(table(1, 1, 3, 3, leader=0), table(2, 1, 3, leader=0))

    assert decide_candidacy(VOTERS, tables, waiting(ends={key(1): 3})) is None
    assert decide_candidacy(VOTERS, tables, waiting(ends={key(1): 4})) is not None


def test_nobody_stands_where_another_leads_by_now():
    tables = readable(table(1, 1, epoch=4, leader=1), table(2, 1))

    assert decide_candidacy(VOTERS, tables, waiting()) is None


def test_nobody_stands_where_no_log_says_who_votes():
    """The creation of the cluster was cut off: no candidate could count its votes."""
    tables = readable(*(VoterTable(key(node)) for node in (0, 1, 2)))

    assert decide_candidacy(VOTERS, tables, waiting(0)) is None


def test_nobody_stands_without_a_majority():
    with pytest.raises(QuorumUnavailableError, match="1 of 3 voters"):
        decide_candidacy(VOTERS, readable(table(1, 1)), waiting())


def test_a_voter_above_the_leaders_epoch_without_a_leader_is_stranded():
    assert is_stranded(table(1, 1, epoch=4, vote=1), LEADER)
    assert not is_stranded(table(1, 1, epoch=4, leader=2), LEADER)
    assert not is_stranded(table(1, 1, epoch=3), LEADER)


# fmt: off
OUTCOMES = [    # log         committed  the write          what became of it
    pytest.param(log(1, 1),     3,       ("1-2", 2, 1),     Outcome.COMMITTED, id="below"),
    pytest.param(log(1, 1),     2,       ("1-2", 2, 1),     Outcome.UNKNOWN,   id="in the tail"),
    pytest.param(log(1, 2),     3,       ("x", 2, 1),       Outcome.LOST,      id="a later epoch, committed"),
    pytest.param(log(1, 2),     2,       ("x", 2, 1),       Outcome.UNKNOWN,   id="a later epoch, in the tail"),
    pytest.param(log(1),        2,       ("x", 2, 1),       Outcome.UNKNOWN,   id="nothing yet"),
    pytest.param(log(1, 2, 2),  4,       ("1-1", 1, 1),     Outcome.COMMITTED, id="found under a later leader"),
]
# fmt: on


@pytest.mark.parametrize("found, committed, write, outcome", OUTCOMES)
def test_outcomes(found, committed, write, outcome):
    write_id, base, epoch = write

    assert outcome_of(found, committed, RaftBatch(base, base + 1, epoch, write_id)) is outcome


FOLLOWER = table(1, 1, 3, 3, leader=0)


def test_a_voter_that_has_caught_up_is_added():
    added = add_voter(seen(FOLLOWER), voter(3), table(3, 1, 3, leader=0))

    assert added.keys == (key(0), key(1), key(2), key(3))
    assert added.majority == 3
    assert not is_caught_up(LEADER.log, table(3, 1, epoch=3, leader=0))


def test_changes_that_are_refused():
    settled = seen(FOLLOWER)

    with pytest.raises(QuorumUnavailableError, match="catch up"):
        add_voter(settled, voter(3), table(3, 1, epoch=3, leader=0))
    with pytest.raises(DuplicateVoterError):
        add_voter(settled, voter(2), table(2, 1, 3, 3, leader=0))
    with pytest.raises(QuorumUnavailableError, match="not committed"):
        add_voter(seen(), voter(3), table(3, 1, 3, 3, leader=0))
    with pytest.raises(VoterNotFoundError):
        remove_voter(settled, key(2)._replace(directory_id="another"))
    with pytest.raises(InvalidRequestError, match="elect another"):
        remove_voter(settled, key(0))
    assert remove_voter(settled, key(2)).keys == (key(0), key(1))


def test_a_root_that_was_prepared_under_the_id_of_a_voter_is_to_be_emptied():
    """Two were prepared at once; the voter is well."""
    second = Voter(key(2)._replace(directory_id="another"), "/meta/second")

    with pytest.raises(DuplicateVoterError, match=r"/meta/second .* /meta/2 is by now: empty it"):
        VOTERS.with_voter(second)


def test_the_only_voter_is_not_removed():
    with pytest.raises(VoterNotFoundError, match="only voter"):
        VoterSet.of([voter(0)]).without_voter(key(0))


def test_the_voters_are_those_of_the_best_log():
    """A change of voters that came to nothing may stand at the end of another."""
    newer = VoterSet.of([voter(1), voter(2), voter(3)])
    change = RaftBatch(2, 3, 1, "change", BatchKind.DECISION, newer)
    changed = VoterTable(key(1), 1, (), (), log(1).appended(change))
    unnamed = VoterTable(key(3), 3)

    assert newest_voters([table(0, 1), changed, unnamed]) == newer
    assert newest_voters([table(0, 1, 2), changed]) == VOTERS
    assert newest_voters([unnamed]) is None


def test_roots_of_two_clusters_are_an_error():
    with pytest.raises(InconsistentClusterIdError):
        check_cluster_ids({"/a": "c", "/b": "d"})
    assert check_cluster_ids({"/a": "c", "/b": "c"}) == "c"


def begun(node, *epochs, cluster="c"):
    """Return the table of a voter whose log begins as the creation of a cluster has it."""
    found = table(node, *epochs)
    first = replace(BOOTSTRAP, write_id=bootstrap_id(cluster))
    return replace(found, log=replace(found.log, batches=(first, *found.log.batches[1:])))


def test_creation_goes_on_where_it_was_cut_short():
    check_beginning([begun(0, 1), VoterTable(key(1)), begun(2)], VOTERS, "c")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(begun(1, cluster="another"), id="another cluster"),
        pytest.param(begun(1, 1, 1), id="a cluster in use"),
    ],
)
def test_creation_refuses_a_root_that_is_in_use(other):
    with pytest.raises(InvalidRootError, match="/meta/1"):
        check_beginning([begun(0), other, begun(2)], VOTERS, "c")


def test_force_goes_on_with_one_voter_in_another_generation():
    change = force(table(1, 1, 2), voter(1).root, record_count=3, write_id="w")

    after = table(1, 1, 2).apply(change)
    assert generation_of(after.quorum_epoch) == 1
    assert after.leads
    assert after.log.voters == VoterSet.of([voter(1)])
    assert view_of(after).is_confirmed
    assert after.log.end == OffsetAndEpoch(6, EPOCHS_OF_A_GENERATION + 1)
    assert after.log.batches[-1].kind is BatchKind.NO_OP


@pytest.mark.parametrize(
    "epoch, first", [(0, 1), (99_999_999, 1), (100_000_000, 2), (100_000_007, 2)]
)
def test_a_generation_has_epochs_that_those_before_it_do_not_come_to(epoch, first):
    assert first_epoch_after(epoch, 7) == first * EPOCHS_OF_A_GENERATION + 7
    assert first_epoch_after(epoch, 2**31 - 1) == first * EPOCHS_OF_A_GENERATION


def test_force_is_refused_while_a_majority_answers():
    with pytest.raises(InvalidRequestError, match="nothing is to be forced"):
        check_may_force(table(1, 1), [table(1, 1), table(2, 1)], VoterSet.of([voter(3)]))
    with pytest.raises(InvalidRequestError, match="is no voter"):
        check_may_force(table(3, 1), [table(3, 1)], VOTERS)


def of_voters(voters, found):
    first, *others = found.log.batches
    return replace(found, log=RaftLog((replace(first, voters=voters), *others)))


def test_the_voter_with_the_most_of_the_log_goes_on():
    five = VoterSet.of(map(voter, range(5)))
    short, long = of_voters(five, table(1, 1, 2)), of_voters(five, table(2, 1, 2, 2))

    check_may_force(long, [short, long], five)
    with pytest.raises(InvalidRequestError, match="force from voter 2"):
        check_may_force(short, [short, long], five)
    with pytest.raises(InvalidRequestError, match="nothing is to be forced"):
        check_may_force(long, [short, long], VOTERS)


def test_a_process_of_an_older_generation_stops():
    new = table(2, 1, EPOCHS_OF_A_GENERATION)

    check_generation(1, 1)
    check_generations([table(0, 1), new], EPOCHS_OF_A_GENERATION + 3)
    with pytest.raises(InconsistentClusterError, match="forced"):
        check_generations([table(0, 1), new], 7)
    with pytest.raises(InconsistentClusterError, match="forced"):
        check_generation(0, 1)


def forced_at(node):
    before = table(node, 1, 2)
    return before.apply(force(before, voter(node).root, record_count=1, write_id="w"))


def test_a_cluster_that_was_forced_at_two_places_is_told():
    zero, two = forced_at(0), forced_at(2)
    old = table(1, 1, 2)
    voted = VoterTable(key(1), two.quorum_epoch, (), (), old.log)

    check_generations([])
    check_generations([old, zero])
    check_generations([zero, replace(zero, key=key(3)), voted])
    with pytest.raises(InconsistentClusterError, match=r"two places: voter 0:d0 .* voter 2:d2"):
        check_generations([two, old, zero])


UNNAMED = VoterTable(key(0), 4, (), ((key(1), 4),))
# fmt: off
STATES = [      # its table                                 newest epoch  state
    pytest.param(table(0, 1),                                     1, "Unattached", id="neither vote nor leader"),
    pytest.param(table(0, 1, epoch=4),                            4, "Unattached", id="an epoch of which it has only heard"),
    pytest.param(table(0, 1, epoch=4, vote=1),                    4, "Voted",      id="a vote for another"),
    pytest.param(table(0, 1, epoch=4, vote=0),                    4, "Candidate",  id="a vote for itself"),
    pytest.param(table(0, 1, epoch=4, vote=0, leader=0),          4, "Leader",     id="elected"),
    pytest.param(table(0, 1, epoch=4, vote=0, leader=0),          3, "Leader",     id="elected since the others were seen"),
    pytest.param(table(0, 1, epoch=4, vote=0, leader=0),          5, "Resigned",   id="another leads a later epoch"),
    pytest.param(table(0, 1, epoch=4, vote=0, leader=1),          4, "Follower",   id="it stood, and another was elected"),
    pytest.param(table(0, 1, epoch=4, vote=1, leader=1),          4, "Follower",   id="voted for whom it follows"),
    pytest.param(table(0, 1, epoch=4, leader=2),                  5, "Follower",   id="follows who leads no more"),
    pytest.param(UNNAMED,                                         4, "Observer",   id="an empty log"),
    pytest.param(table(3, 1, epoch=4, leader=1),                  4, "Observer",   id="its log does not name it"),
]
# fmt: on


@pytest.mark.parametrize("found, newest, expected", STATES)
def test_a_voters_state_follows_from_its_table(found, newest, expected):
    assert voter_state(found, newest) == expected


def test_a_vote_of_an_earlier_epoch_says_nothing_in_a_later_one():
    voted = table(0, 1, epoch=4, vote=1)

    assert voter_state(replace(voted, quorum_epoch=5), 5) == "Unattached"
