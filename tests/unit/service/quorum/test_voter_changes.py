"""Voters are added and removed one at a time, and leadership is transferred, while others decide."""

import pytest

from kafka_on_spark.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    DuplicateVoterError,
    InconsistentClusterError,
    KafkaStorageError,
    QuorumUnavailableError,
    VoterNotFoundError,
)
from kafka_on_spark.raft.epochs import EPOCHS_OF_A_GENERATION
from kafka_on_spark.raft.log.raft_log import BatchKind, RaftBatch
from kafka_on_spark.raft.tables.voter_table import TableChange, VoterTable
from kafka_on_spark.raft.voter_set import VoterSet
from tests.voter_fakes import STAMP, MemoryQuorum, MemoryVoterRoot, VoterFault, key_of, voter_of


@pytest.fixture
def quorum():
    return MemoryQuorum(1)


@pytest.fixture
def process(quorum):
    return quorum.process()


def new_root(quorum):
    """Make another root, that no log names."""
    node = len(quorum.roots)
    quorum.roots.append(MemoryVoterRoot(key_of(node), [VoterTable(key_of(node))], {}))
    return voter_of(node)


def grown(quorum, process, count=3):
    for _ in range(count - len(quorum.roots)):
        process.changes.add(new_root(quorum), STAMP)


def nodes_of(voters):
    return [key.node_id for key in voters.keys]


def leader_of(process):
    process.names()
    return process.leader.node_id


def test_one_voter_grows_to_three_and_shrinks_back_while_others_decide(quorum, process):
    other = quorum.process("other")
    other.decide("before")

    for count in (2, 3):
        voters = process.changes.add(new_root(quorum), STAMP)
        assert nodes_of(voters) == list(range(count))
        other.decide(f"with {count}")
    for node in (0, 1):  # the first one leads
        voters = process.changes.remove(key_of(node), STAMP)
        assert node not in nodes_of(voters)
        other.decide(f"without {node}")

    assert other.names() == ["before", "with 2", "with 3", "without 0", "without 1"]
    assert nodes_of(other.tables.voters) == [2]
    assert leader_of(other) == 2


def test_a_change_of_voters_is_counted_by_the_new_set(quorum, process):
    voter = new_root(quorum)
    process.changes.bring_up(voter)

    def away_once_added(change):
        quorum.roots[1].is_read_only = bool(quorum.roots[0].table.log.voters.keys[1:])

    quorum.roots[1].before_commit = away_once_added
    with pytest.raises(CommitOutcomeUnknownError):
        process.changes.add(voter, STAMP)

    assert nodes_of(quorum.roots[0].table.log.voters) == [0, 1]
    quorum.roots[1].before_commit = lambda change: None
    quorum.roots[1].is_read_only = False
    process.decide("a")
    assert nodes_of(process.tables.voters) == [0, 1]


def test_a_new_voter_has_all_of_the_log_before_it_counts(quorum, process):
    for place in range(5):
        process.decide(f"a{place}")
    voter = new_root(quorum)

    process.changes.add(voter, STAMP)

    assert quorum.roots[1].writes == quorum.roots[0].writes
    assert quorum.process("q").names() == [f"a{place}" for place in range(5)]


def test_a_root_that_takes_no_commits_becomes_no_voter(quorum, process):
    voter = new_root(quorum)
    process.changes.bring_up(voter)
    quorum.roots[1].is_read_only = True

    with pytest.raises(KafkaStorageError, match="fails"):
        process.changes.add(voter, STAMP)

    assert nodes_of(quorum.roots[0].table.log.voters) == [0]
    assert process.decide("a")


def test_a_voter_that_others_keep_behind_is_not_added(quorum, process):
    """Each time that it is written to, more than a batch is appended."""
    voter, other = new_root(quorum), quorum.process("other")

    def append_two(change):
        other.decide("more")
        other.decide("and more")

    quorum.roots[1].before_commit = append_two

    with pytest.raises(QuorumUnavailableError, match="not changed"):
        process.changes.add(voter, STAMP)
    assert nodes_of(quorum.roots[0].table.log.voters) == [0]


def test_two_changes_at_once_are_made_one_after_the_other(quorum, process):
    grown(quorum, process)
    one, two = new_root(quorum), new_root(quorum)
    other = quorum.process("other")
    is_first = [True]

    def add_the_other(change):
        if change.appended and is_first and is_first.pop():
            other.changes.add(two, STAMP)

    quorum.roots[0].before_commit = add_the_other
    voters = process.changes.add(one, STAMP)

    assert nodes_of(voters) == [0, 1, 2, 3, 4]
    sets = [each.voters for each in quorum.roots[0].table.log.batches if each.voters is not None]
    assert [nodes_of(each) for each in sets][-2:] == [[0, 1, 2, 4], [0, 1, 2, 3, 4]]


def test_a_voter_that_another_process_added_and_elected_meanwhile_is_left_alone(quorum, process):
    """A mark of itself without a no-op would begin no leadership."""
    voter, other = new_root(quorum), quorum.process("other")
    is_first = [True]

    def add_and_elect(change):
        if is_first and is_first.pop():
            other.changes.add(voter, STAMP)
            other.changes.elect(voter.key)

    quorum.roots[1].before_commit = add_and_elect
    with pytest.raises(DuplicateVoterError):
        process.changes.add(voter, STAMP)

    led = [each for each in quorum.roots[1].versions if each.leads]
    assert all(each.log.epoch_start(each.quorum_epoch) for each in led)
    assert leader_of(process) == 1


def test_a_change_that_is_cut_is_in_force_no_longer(quorum, process):
    """The leader's root takes it, goes away before anybody else has it, and another leads."""
    grown(quorum, process)
    voter = new_root(quorum)
    process.changes.bring_up(voter)

    def alone(change):
        for root in quorum.roots[1:] if change.appended and change.appended[0].voters else ():
            root.is_read_only = True

    quorum.roots[0].before_commit = alone
    with pytest.raises(CommitOutcomeUnknownError):
        process.changes.add(voter, STAMP)
    assert nodes_of(quorum.roots[0].table.log.voters) == [0, 1, 2, 3]
    quorum.roots[0].is_offline = True
    quorum.roots[3].is_offline = True
    for root in quorum.roots[1:3]:
        root.is_read_only = False

    process.decide("a")

    assert nodes_of(process.tables.voters) == [0, 1, 2]
    quorum.roots[0].is_offline = False
    process.decide("b")
    process.maintain()  # the old leader stood in vain, and is taken back
    quorum.clock.sleep_ms(2000)
    process.maintain()
    process.decide("c")
    assert nodes_of(quorum.roots[0].table.log.voters) == [0, 1, 2]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda voters: voters.with_voter(voter_of(3)), id="one more"),
        pytest.param(lambda voters: voters.without_voter(key_of(2)), id="one less"),
    ],
)
def test_a_change_that_came_to_nothing_leaves_the_others_their_majority(quorum, process, changed):
    """It stands at the end of a root that comes back, and the next leader's root goes away before
    anybody has brought that one up."""
    grown(quorum, process)
    new_root(quorum)
    old, *_, new = quorum.roots
    end, voters = old.table.log.end_offset, changed(old.table.log.voters)
    batch = RaftBatch(end, end + 1, old.table.quorum_epoch, "change", BatchKind.DECISION, voters)
    assert old.put(old.table, TableChange(appended=(batch,)), {})
    old.is_offline = new.is_offline = True
    process.decide("a")
    assert quorum.roots[1].table.leads

    old.is_offline, quorum.roots[1].is_offline = False, True
    late = quorum.process("late")
    late.tables.use(VoterSet.of(map(voter_of, (0, 1, 2))))  # its list names all of them

    assert late.names() == ["a"]
    assert nodes_of(late.tables.voters) == [0, 1, 2]
    assert "change" not in old.writes


def test_the_leader_is_removed_after_another_leads(quorum, process):
    grown(quorum, process)

    process.changes.remove(key_of(0), STAMP)

    assert leader_of(process) in (1, 2)
    record = next(each for each in quorum.roots[1].table.log.batches if each.epoch == 2)
    assert record.voters is None  # the no-op came first


def test_a_voter_that_is_lost_is_removed_and_another_root_comes_in_its_place(quorum, process):
    grown(quorum, process)
    quorum.roots[2].is_offline = True

    process.changes.remove(key_of(2), STAMP)
    process.changes.add(new_root(quorum), STAMP)

    process.decide("a")
    assert nodes_of(quorum.process("q").tables.voters) == [0]  # its list is old
    late = quorum.process("late")
    assert late.names() == ["a"]
    assert nodes_of(late.tables.voters) == [0, 1, 3]


def test_no_voter_is_removed_without_whom_nothing_could_be_decided(quorum, process):
    grown(quorum, process)
    quorum.roots[2].is_offline = True

    with pytest.raises(QuorumUnavailableError, match="too few of the 2 voters that are left"):
        process.changes.remove(key_of(1), STAMP)

    assert nodes_of(quorum.roots[0].table.log.voters) == [0, 1, 2]
    assert process.decide("a")


def test_a_voter_that_was_emptied_is_removed_and_comes_back_as_another(quorum, process):
    grown(quorum, process)
    process.decide("a")
    quorum.roots[2].empty()

    process.changes.remove(key_of(2), STAMP)
    again = voter_of(2)
    again = type(again)(quorum.roots[2].key, again.root)
    process.changes.add(again, STAMP)

    quorum.roots[1].is_offline = True
    process.decide("b")
    assert quorum.process("q").names() == ["a", "b"]


def stood_in_vain(quorum, process, node, epoch):
    """Have a voter be a candidate whose process died, and remove it."""
    table = process.tables.load(key_of(node))
    process.tables.commit(table, TableChange(quorum_epoch=epoch, vote=table.key))
    process.changes.remove(key_of(node), STAMP)


@pytest.mark.parametrize("is_brought_up_before", [True, False])
def test_a_former_voter_above_the_leaders_epoch_is_added_again(
    quorum, process, is_brought_up_before
):
    grown(quorum, process)
    stood_in_vain(quorum, process, 2, epoch=5)
    other = quorum.process("other")

    if is_brought_up_before:
        other.changes.bring_up(voter_of(2))
    voters = other.changes.add(voter_of(2), STAMP)

    assert nodes_of(voters) == [0, 1, 2]
    assert [root.table.quorum_epoch for root in quorum.roots] == [6, 6, 6]
    process.decide("a")
    quorum.roots[1].is_offline = True
    process.decide("b")


def test_no_leader_is_elected_above_a_root_of_a_later_generation(quorum, process):
    grown(quorum, process)
    stood_in_vain(quorum, process, 2, epoch=EPOCHS_OF_A_GENERATION + 2)

    for change in (process.changes.bring_up, lambda voter: process.changes.add(voter, STAMP)):
        with pytest.raises(InconsistentClusterError, match="the cluster was forced"):
            change(voter_of(2))

    assert [root.table.quorum_epoch for root in quorum.roots[:2]] == [1, 1]


def test_a_process_from_before_finds_the_voters_that_came_since(quorum, process):
    old = quorum.process("old")
    assert old.names() == []
    grown(quorum, process)
    process.changes.remove(key_of(0), STAMP)
    quorum.roots[0].is_offline = True

    with pytest.raises(KafkaStorageError):  # nobody told it of the others
        quorum.process("stale").names()
    process.decide("a")
    quorum.roots[0].is_offline = False

    assert old.names() == ["a"]
    quorum.roots[0].is_offline = True
    old.decide("b")
    assert process.names() == ["a", "b"]


@pytest.mark.parametrize("to", [0, 1, 2])
def test_leadership_is_transferred_to_the_voter_that_is_named(quorum, process, to):
    grown(quorum, process)
    other = quorum.process("other")
    other.decide("a")

    assert process.changes.elect(key_of(to)) == key_of(to)

    assert leader_of(other) == to
    assert other.decide("b")
    epochs = [root.table.quorum_epoch for root in quorum.roots]
    assert epochs[to] == (1 if to == 0 else 2)


def test_the_lowest_of_the_best_voters_leads_if_none_is_named(quorum, process):
    grown(quorum, process)
    process.changes.elect(key_of(2))
    quorum.process("bring up").names()

    assert process.changes.elect(None) == key_of(0)
    assert leader_of(process) == 0
    assert process.changes.elect(None) == key_of(0)
    assert quorum.roots[0].table.quorum_epoch == 3


def test_a_decision_between_the_copy_and_the_candidacy_costs_a_try(quorum, process):
    grown(quorum, process)
    other, rounds = quorum.process("other"), [1, 1]

    def decide_first(change):
        if change.vote == key_of(1) and rounds:
            rounds.pop()
            other.decide("meanwhile")

    quorum.roots[1].before_commit = decide_first

    assert process.changes.elect(key_of(1)) == key_of(1)
    assert process.names() == ["meanwhile", "meanwhile"]


def test_a_voter_whose_root_fails_can_not_be_elected(quorum, process):
    grown(quorum, process)
    quorum.roots[1].is_read_only = True

    with pytest.raises(KafkaStorageError, match="can't lead"):
        process.changes.elect(key_of(1))

    assert leader_of(process) == 0
    assert process.decide("a")


REFUSED = [
    pytest.param(lambda c: c.add(voter_of(0), STAMP), DuplicateVoterError, id="a voter again"),
    pytest.param(lambda c: c.remove(key_of(7), STAMP), VoterNotFoundError, id="no voter"),
    pytest.param(lambda c: c.remove(key_of(0), STAMP), VoterNotFoundError, id="the only one"),
    pytest.param(lambda c: c.elect(key_of(7)), VoterNotFoundError, id="elect no voter"),
    pytest.param(lambda c: c.check_removal(key_of(0)), VoterNotFoundError, id="plan: only one"),
    pytest.param(lambda c: c.check_new(voter_of(0)), DuplicateVoterError, id="plan: voter again"),
]


@pytest.mark.parametrize("change, error", REFUSED)
def test_changes_that_can_not_be_are_refused(quorum, process, change, error):
    before = quorum.roots[0].table

    with pytest.raises(error):
        change(process.changes)

    assert quorum.roots[0].table == before


@pytest.mark.parametrize("fault", list(VoterFault))
@pytest.mark.parametrize("nth", range(4))
@pytest.mark.parametrize("node", range(3))
def test_a_store_that_fails_in_a_change_loses_nothing(quorum, process, fault, nth, node):
    """Voter 2 is added, or comes to be, or is not; decisions go on in any case."""
    grown(quorum, process, 2)
    voter = new_root(quorum)
    quorum.roots[node].faults.extend([None] * nth + [fault])

    try:
        process.changes.add(voter, STAMP)
        is_told = True
    except (CommitOutcomeUnknownError, CommitConflictError, KafkaStorageError):
        is_told = False

    for root in quorum.roots:
        root.faults.clear()
        root.land()
    process.decide("a")
    late = quorum.process("late")
    assert late.names() == ["a"]
    assert not is_told or nodes_of(late.tables.voters) == [0, 1, 2]
    assert late.tables.voters in (
        VoterSet.of(map(voter_of, (0, 1))),
        VoterSet.of(map(voter_of, (0, 1, 2))),
    )
