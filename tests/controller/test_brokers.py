"""A broker's registration, failure, return, draining and removal, for it and its partitions."""

from dataclasses import replace
from itertools import product

import pytest

from kafka_on_spark.base.errors import (
    DuplicateBrokerRegistrationError,
)
from kafka_on_spark.base.ids import KEEP, LOST, BrokerId, DirectoryId, PartitionKey
from kafka_on_spark.controller.brokers import (
    alter_broker,
    continue_draining,
    drain_broker,
    fence_broker,
    forget_refused,
    leave_isrs,
    note_refused,
    register_broker,
    resume_broker,
    unfence_broker,
)
from kafka_on_spark.controller.election import (
    change_record,
    elect_preferred,
    elect_where_none,
    leaderless,
    lose_replica,
    lost_change,
)
from kafka_on_spark.controller.reassignment import advance_reassignments, cancel_reassignments
from kafka_on_spark.metadata.image import ControllerResult
from kafka_on_spark.metadata.records import (
    BrokerState,
    PartitionChangeRecord,
    RefusedWrite,
)
from tests.builders import KEY, TOPIC_ID, brokers, disk, image_of, partition, subsets, uuid_on
from tests.committing import committed, replay


def partitions(image):
    return image.topics[TOPIC_ID].partitions


def short(registration):
    """Return ISR, ELR and leader as text, for a row of a table."""
    words = (" ".join(map(str, sorted(each))) for each in (registration.isr, registration.elr))
    isr, elr = words
    return isr, elr, registration.leader


# fmt: off
FENCED = [  # partition before                                   min, draining    isr, elr, leader after broker 1 fails
    pytest.param(partition("1 2 3"),                              "1", "",        ("2 3", "", 2),       id="leader-fails-next-in-order-leads"),
    pytest.param(partition("2 1 3"),                              "1", "",        ("2 3", "", 2),       id="follower-fails-leader-stays"),
    pytest.param(partition("1 3 2", isr="1 2"),                   "1", "",        ("2", "", 2),         id="out-of-sync-is-passed-over"),
    pytest.param(partition("2 3 1", isr="2 3"),                   "1", "",        ("2 3", "", 2),       id="was-not-in-sync"),
    # The last member stays in the ISR: nobody else has its records.
    pytest.param(partition("1 2 3", isr="1"),                     "1", "",        ("1", "", None),      id="last-member-stays-offline"),
    pytest.param(partition("1"),                                  "1", "",        ("1", "", None),      id="only-replica"),
    # Below the minimum the high watermark stands still, so who leaves stays eligible (KIP-966).
    pytest.param(partition("1 2 3", isr="1 2"),                   "2", "",        ("2", "1", 2),        id="joins-the-elr-below-the-minimum"),
    pytest.param(partition("1 2 3"),                              "2", "",        ("2 3", "", 2),       id="not-at-the-minimum"),
    pytest.param(partition("1 2", isr="1 2"),                     "3", "",        ("2", "1", 2),        id="minimum-is-at-most-the-replicas"),
    pytest.param(partition("2 1 3", isr="2 1", elr="3"),          "3", "",        ("2", "1 3", 2),      id="elr-grows"),
    pytest.param(partition("1 2 3", isr="1", elr="3"),            "2", "",        ("3", "1", 3),        id="elr-leads-in-the-same-commit-where-the-last-member-fails"),
    pytest.param(partition("1 2 3", isr="1 2", elr="3", lost="3"), "3", "",       ("2", "1", 2),        id="a-lost-replica-is-not-eligible"),
    # A draining broker stays in sync and takes no leadership.
    pytest.param(partition("1 2 3"),                              "1", "2",       ("2 3", "", 3),       id="draining-is-passed-over"),
    pytest.param(partition("1 2"),                                "1", "2",       ("2", "", None),      id="only-draining-is-left"),
    pytest.param(partition("1 2 3", isr="1 2", elr="3"),          "3", "2",       ("3", "1 2", 3),      id="elr-leads-where-only-draining-is-left"),
]

# fmt: on


# fmt: off
SUSPECTS = [  # partition before                    suspects  the leader that is chosen
    pytest.param(partition("1 2 3"),                      [2],      3,    id="another member leads"),
    pytest.param(partition("1 2 3", isr="1", elr="2 3"),  [2],      3,    id="an eligible replica leads"),
    pytest.param(partition("1 2 3"),                      [2, 3],   None, id="nobody leads until it was inspected again"),
    pytest.param(partition("2 1 3"),                      [2],      KEEP, id="who leads leads on"),
]

# fmt: on


@pytest.mark.parametrize("before, suspects, leader", SUSPECTS)
def test_no_failure_has_a_suspect_elected(before, suspects, leader):
    found = frozenset(map(uuid_on, suspects))
    image = image_of(before, configs={"min.insync.replicas": "2"}, suspects=found)

    fenced = fence_broker(image, BrokerId(1), "away")
    gone = leave_isrs(image, {1: "away"}, {KEY: before}, frozenset({2, 3}), "by me")

    assert fenced.records[-1].change.leader == leader
    assert [each.change.leader for each in gone.records] in ([leader], [])


# fmt: off
CHOICES = [  # partition before, where broker 2 is the first choice      decision
    pytest.param(partition("2 1 3", leader=1),                             lambda image: elect_preferred(image, "why"),                        id="preferred leaders"),
    pytest.param(partition("2 3 1", leader=1, removing="1"),                advance_reassignments,                                              id="a reassignment"),
    pytest.param(partition("2 3 1", leader=1, removing="2 3", adding="1"),  lambda image: cancel_reassignments(image, [KEY], cause="why"),      id="a cancelled reassignment"),
    pytest.param(partition("1 2 3", isr="2 3", leader=None),                lambda image: elect_where_none(image, frozenset({2, 3}), "why"),    id="nobody leads"),
    pytest.param(partition("1 2 3"),                                       lambda image: lose_replica(image, KEY, BrokerId(1), "why"),         id="the leader is lost"),
    pytest.param(partition("1 2 3"),                                       lambda image: drain_broker(image, BrokerId(1), "why"),            id="the leader drains"),
]

# fmt: on


@pytest.mark.parametrize("before, decide", CHOICES)
def test_no_decision_chooses_a_suspect(before, decide):
    image = image_of(before)

    def chosen(image):
        changes = [
            each for each in decide(image).records if isinstance(each, PartitionChangeRecord)
        ]
        return [each.change.leader for each in changes]

    assert chosen(image) == [2]
    assert 2 not in chosen(replace(image, suspects=frozenset({uuid_on(2)})))


def test_a_suspect_that_leads_leads_on_where_the_first_choice_may_not_lead():
    image = image_of(partition("2 1 3", isr="1 3", leader=1), suspects=frozenset({uuid_on(1)}))

    assert not elect_preferred(image, "why").records


def test_a_suspect_that_could_lead_leaves_no_room_for_an_unclean_election():
    image = image_of(partition("1 2", isr="1", leader=None))

    assert leaderless(replace(image, suspects=frozenset({uuid_on(1)}))) == []


def test_fencing_twice_and_unfencing_the_active_do_nothing():
    image = image_of(partition("1 2"), fenced="2")

    assert fence_broker(image, BrokerId(2), "again").records == []
    assert unfence_broker(image, BrokerId(1), "again").records == []


# fmt: off
BAD = [  # partition before                                        isr, elr, leader, after broker 1's replica was lost
    pytest.param(partition("1 2 3"),                                ("2 3", "", 2),    id="leader-is-lost"),
    pytest.param(partition("2 1 3"),                                ("2 3", "", 2),    id="follower-is-lost"),
    pytest.param(partition("2 3 1", isr="2 3"),                     ("2 3", "", 2),    id="was-out-of-sync"),
    pytest.param(partition("2 3 1", isr="2", elr="1 3"),            ("2", "3", 2),     id="leaves-the-elr"),
    pytest.param(partition("1 2 3", isr="1"),                       ("1", "", None),   id="last-member-stays-without-a-leader"),
    pytest.param(partition("1 2 3", isr="1", leader=None),          ("1", "", None),   id="last-member-while-offline"),
]

# fmt: on


@pytest.mark.parametrize("before, expected", BAD)
def test_bad_replica(before, expected):
    change = lost_change(image_of(before), before, BrokerId(1))
    after = before.merge(change)

    assert short(after) == expected
    assert after.directory_of(1) == LOST
    assert after.leader_epoch == before.leader_epoch + (before.leader != after.leader)


def test_every_failure_loss_and_return_of_three_replicas_is_safe():
    """All small registrations, each broker state: ISR never empty, leaders eligible, epochs right."""
    everyone, checked = brokers("1 2 3"), 0
    words = [" ".join(map(str, sorted(each))) for each in subsets(everyone)]
    for isr, elr, draining, minimum in product(words[1:], words, words, "12"):
        if set(isr) & set(elr) - {" "}:
            continue
        for leader in [None, *brokers(isr)]:
            before = partition("2 1 3", isr, leader, elr=elr)
            image = image_of(before, draining=draining, configs={"min.insync.replicas": minimum})
            for decide in (fence, lose, come_back):
                checked += 1
                assert_safe(*decide(image))
    assert checked == 2208


def fence(image):
    return image, replay(image, fence_broker(image, BrokerId(1), "why"))


def lose(image):
    before = partitions(image)[0]
    change = lost_change(image, before, BrokerId(1))
    record = change_record(image, PartitionKey(TOPIC_ID, 0), before, change, "why")
    return image, replay(image, ControllerResult([record], None))


def come_back(image):
    away = replay(image, fence_broker(image, BrokerId(1), "why"))
    return away, replay(away, unfence_broker(away, BrokerId(1), "why"))


def assert_safe(image, changed):
    before, after = partitions(image)[0], partitions(changed)[0]
    known_complete = before.isr | before.elr
    assert after.isr
    assert after.isr | after.elr <= known_complete  # who was not complete does not become so
    if after.leader != before.leader and after.leader is not None:
        assert changed.is_eligible(after.leader)
    assert (after.leader_epoch > before.leader_epoch) == (after.leader != before.leader)
    assert after.partition_epoch - before.partition_epoch in (0, 1)
    assert (after.partition_epoch == before.partition_epoch) == (after == before)


def register(image, broker_id, *, root="r", directory="new"):
    return register_broker(
        image, BrokerId(broker_id), root, rack="a", directory_id=DirectoryId(directory), cause="why"
    )


# fmt: off
REFUSED = [
    pytest.param({"broker_id": 4, "directory": disk(2)},                       "as broker 2",  id="directory-of-another"),
    pytest.param({"broker_id": 4, "root": "memory://2"},                       "as broker 2",  id="root-of-another"),
    pytest.param({"broker_id": 1, "root": "memory://1", "directory": disk(1)}, "this very",    id="itself-again"),
    pytest.param({"broker_id": 1, "root": "memory://1"},                       "fenced",       id="another-disk-while-it-answers"),
    pytest.param({"broker_id": 3, "root": "memory://2"},                       "as broker 2",  id="fenced-broker-moves-to-anothers-root"),
]

# fmt: on


@pytest.mark.parametrize("fields, words", REFUSED)
def test_registration_is_refused(fields, words):
    with pytest.raises(DuplicateBrokerRegistrationError, match=words):
        register(image_of(partition("1"), fenced="3"), **fields)


@pytest.mark.parametrize("given, rack", [(None, "west"), ("a", "a"), ("", None)])
def test_another_disk_has_the_rack_of_the_one_before_unless_another_is_given(given, rack):
    image = image_of(partition("1 2", leader=2), fenced="1")
    image = replay(image, alter_broker(image, BrokerId(1), "west", "why"))

    again = register_broker(
        image, BrokerId(1), "r", rack=given, directory_id=DirectoryId("new"), cause="why"
    )

    assert replay(image, again).brokers[1].rack == rack


def test_a_rack_is_set_and_cleared_and_nothing_else_of_a_broker_changes():
    refused = RefusedWrite(5, ("h",))
    image = image_of(partition("1 2"), partition("1 3", leader=3), fenced="3")
    for broker_id, since_ms in ((1, None), (3, 7)):
        known = image.brokers[broker_id]
        broker = replace(known, refused=refused, fenced_since_ms=since_ms)
        before = replace(image, brokers={**image.brokers, broker_id: broker})
        west = replay(before, alter_broker(before, BrokerId(broker_id), "west", "why"))

        assert west.brokers[broker_id] == replace(broker, rack="west")
        assert alter_broker(west, BrokerId(broker_id), "west", "why").records == []
        cleared = replay(west, alter_broker(west, BrokerId(broker_id), "", "why"))
        assert cleared.brokers[broker_id] == replace(broker, rack=None)


def test_another_disk_is_another_epoch_and_its_replicas_are_lost_in_one_commit():
    image = image_of(
        partition("1 2", isr="1", leader=None),
        partition("2 1", isr="2"),
        partition("1 2", isr="2", leader=2, unmade="1"),
        partition("2 3"),
        fenced="1",
    )

    result = register(image, 1, root="memory://1")
    after = replay(image, result)

    assert result.response == after.brokers[1].broker_epoch == 1
    assert [
        each.directory_of(1) for _, each in zip(range(3), partitions(after).values(), strict=False)
    ] == [LOST, LOST, None]
    assert short(partitions(after)[0]) == ("1", "", None)
    assert partitions(after)[3] == partitions(image)[3]
    assert elect_where_none(after, after.eligible_brokers(), "pass").records == []


FULL = RefusedWrite(900_000, ("a",))

# fmt: off
REFUSED = [  # partition before                                     who refuses, min ISR  isr, leader after
    pytest.param(partition("1 2 3"),                                 "1",    2,  "2 3", 2,  id="the-leader-is-full"),
    pytest.param(partition("2 1 3"),                                 "1",    2,  "2 3", 2,  id="a-follower-is-full"),
    pytest.param(partition("1 2 3", isr="1 2"),                      "1",    1,  "2",   2,  id="one-is-left-as-is-enough"),
    pytest.param(partition("1 2 3", isr="1 2"),                      "1",    2,  "1 2", 1,  id="the-isr-keeps-its-minimum"),
    pytest.param(partition("1 2 3", isr="1"),                        "1",    1,  "1",   1,  id="the-last-member-stays-and-leads"),
    pytest.param(partition("1 2 3"),                                 "1 2",  1,  "1 2 3", 1, id="more-than-half-refuse-one-process"),
    pytest.param(partition("1 2 3"),                                 "",     2,  "1 2 3", 1, id="nobody-refuses"),
]

# fmt: on


@pytest.mark.parametrize("before, refusing, minimum, isr, leader", REFUSED)
def test_an_append_goes_on_without_roots_that_refuse_its_writes(
    before, refusing, minimum, isr, leader
):
    image = image_of(before, configs={"min.insync.replicas": str(minimum)})
    key = PartitionKey(TOPIC_ID, 0)
    refused = {BrokerId(each): FULL for each in brokers(refusing)}

    after = replay(image, note_refused(image, refused, {key: before}, "process 7 on a"))

    changed = partitions(after)[0]
    assert hash(changed.isr)  # frozen, as all of an image
    assert (changed.isr, changed.leader) == (frozenset(brokers(isr)), leader)
    is_noted = len(refused) == 1
    assert after.brokers[1].refused == (FULL if is_noted else None)
    assert after.brokers[1].state is BrokerState.ACTIVE


def test_a_refusal_is_noted_once_a_host_and_for_two_hosts():
    image, counts = image_of(partition("2 3")), []

    for host, hosts in zip("aabbc", ["a", "a", "ab", "ab", "ab"], strict=True):
        met = {BrokerId(1): RefusedWrite(900_000, (host,))}
        noted = note_refused(image, met, {}, "process 7")
        counts.append(len(noted.records))
        image = replay(image, noted)
        assert image.brokers[1].refused.hosts == tuple(hosts)

    assert counts == [1, 0, 1, 0, 0]


@pytest.mark.parametrize("isr, is_fenced", [("1", False), ("1 2", True)])
def test_the_last_member_of_an_isr_is_not_fenced_for_want_of_room(isr, is_fenced):
    image = image_of(partition("1 2 3"), partition("1 2 3", isr=isr))

    after = replay(image, fence_broker(image, BrokerId(1), "full", FULL))

    assert (after.brokers[1].state is BrokerState.FENCED) is is_fenced
    assert after.brokers[1].refused == (FULL if is_fenced else None)
    assert (partitions(after)[0].leader == 2) is is_fenced


def test_a_broker_that_takes_writes_again_refuses_none():
    image = image_of(partition("1 2 3"))
    noted = replay(image, note_refused(image, {BrokerId(1): FULL}, {}, "me"))

    assert (
        replay(noted, forget_refused(noted, BrokerId(1), "it has room")).brokers[1].refused is None
    )

    fenced = replay(noted, fence_broker(noted, BrokerId(1), "full", FULL))
    assert forget_refused(fenced, BrokerId(1), "it is fenced for that").records == []
    assert replay(fenced, unfence_broker(fenced, BrokerId(1), "room")).brokers[1].refused is None


@pytest.mark.parametrize("before, minimum, draining, expected", FENCED)
def test_failure_of_a_broker(before, minimum, draining, expected):
    image = image_of(before, draining=draining, configs={"min.insync.replicas": minimum})

    result = fence_broker(image, BrokerId(1), "probe failed")
    after = replay(image, result)

    assert short(partitions(after)[0]) == expected
    assert after.brokers[1].state is BrokerState.FENCED
    assert result.response == ([PartitionKey(TOPIC_ID, 0)] if before.leader == 1 else [])


def only(image):
    return image.topics[TOPIC_ID].partitions[0]


def test_every_small_partition_is_drained_without_going_offline():
    commits = 0
    states = product(subsets(brokers("1 2 3")), [None, 1, 2, 3], subsets(brokers("2 3")))
    for isr, leader, fenced in states:
        if leader is not None and (leader not in isr or leader in fenced):
            continue
        before = partition("1 2 3", isr=" ".join(map(str, isr)), leader=leader)
        image = image_of(before, fenced=" ".join(map(str, fenced)))
        decided = drain_broker(image, 1, "why")
        while decided.records:
            after = committed(image, decided.records)
            # Leaderships first, the ISR after: never both in one commit.
            assert only(after).leader == only(image).leader or only(after).isr == only(image).isr
            assert (only(after).leader is None) == (leader is None)
            assert bool(only(after).isr) == bool(isr)
            commits += 1
            image, decided = after, continue_draining(after)
        can_follow = (isr & {2, 3}) - fenced
        assert (only(image).leader == 1) == (leader == 1 and not can_follow)
        assert (1 in only(image).isr) == (1 in isr and only(image).leader in (None, 1))
    assert commits == 64 + 15  # one a state, and an ISR shrinks in 7 + 4 + 4 of them


def test_draining_again_is_nothing_new_and_resuming_an_active_broker_is_nothing():
    image = image_of(partition("1 2"), ids="1 2")
    drained = committed(image, drain_broker(image, 1, "why").records)

    assert drained.brokers[1].state is BrokerState.DRAINING
    assert drain_broker(drained, 1, "why").records == []
    assert resume_broker(image, 1, "why").records == []
    assert continue_draining(image).records == []


def test_answer_is_what_moves():
    image = image_of(partition("1 2"), partition("2 1"), ids="1 2")

    assert drain_broker(image, 1, "why").response == [KEY]


def in_short(registered):
    return " ".join(map(str, sorted(registered.isr))), registered.leader


# fmt: off
DRAINED = [  # partition before, broker 1 draining         after the first commit   at the end
    pytest.param(partition("1 2 3"),                       ("1 2 3", 2),            ("2 3", 2),  id="leadership-moves-first-the-isr-shrinks-after"),
    pytest.param(partition("2 1 3"),                       ("1 2 3", 2),            ("2 3", 2),  id="follower-leaves-the-isr"),
    pytest.param(partition("1 2 3", isr="1 3"),            ("1 3", 3),              ("3", 3),    id="the-next-in-sync-leads"),
    pytest.param(partition("1 2", isr="1"),                ("1", 1),                ("1", 1),    id="alone-in-sync-it-leads-on"),
    pytest.param(partition("1"),                           ("1", 1),                ("1", 1),    id="only-replica-leads-on"),
    pytest.param(partition("1 2", isr="1", leader=None),   ("1", None),             ("1", None), id="without-a-leader-it-stays-in-sync"),
    pytest.param(partition("2 3"),                         ("2 3", 2),              ("2 3", 2),  id="not-there"),
    pytest.param(partition("1 4 2"),                       ("1 2 4", 2),            ("2 4", 2),  id="draining-and-fenced-ones-do-not-lead"),
]

# fmt: on


@pytest.mark.parametrize("before, first, last", DRAINED)
def test_broker_is_drained(before, first, last):
    image = image_of(before, ids="1 2 3 4", draining="4")
    if 4 in before.replicas:
        last = (last[0].replace(" 4", ""), last[1])

    drained = committed(image, drain_broker(image, 1, "why").records)

    assert in_short(only(drained)) == first
    assert in_short(only(finished(drained))) == last


def finished(image):
    """Return the image once nothing is left to do; bounded."""
    for _ in range(4):
        decided = continue_draining(image)
        if not decided.records:
            return image
        image = committed(image, decided.records)
    raise AssertionError("draining goes on and on")
