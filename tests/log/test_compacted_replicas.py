"""What compaction asks of a replica that fetches, is cut, leads, is read or joins the ISR."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import NotLeaderOrFollowerError, ReplicaLostError
from kafka_on_spark.base.ids import LOST, Offset
from kafka_on_spark.controller.election import elect_by_inspections
from kafka_on_spark.controller.isr import alter_isr
from kafka_on_spark.log import operations
from kafka_on_spark.log.compaction import CompactionProgress
from kafka_on_spark.log.state import check_readable
from kafka_on_spark.log.truncation import check_tombstones, follow
from kafka_on_spark.metadata.partition import Compaction
from tests.builders import KEY, disk, image_of, inspection, log, partition, report, seen


def compacted(text, below, *, tombstones=0, finished=0, **fields):
    progress = CompactionProgress(
        compacted_below=below, tombstones_below=tombstones, finished_below=finished
    )
    return replace(log(text, **fields), compaction=progress)


# fmt: off
TOMBSTONES = [  # the follower, fenced alike, and whether it is lost
    pytest.param(log("0:a"),                                True,  id="behind-them"),
    pytest.param(log("0:aab"),                              False, id="has-had-them"),
    pytest.param(log(""),                                   False, id="holds-nothing"),
    pytest.param(compacted("0:a", 3, tombstones=3),         False, id="began-behind-them"),
]
# fmt: on


@pytest.mark.parametrize("follower, is_lost", TOMBSTONES)
def test_a_follower_that_has_missed_tombstones_is_lost(follower, is_lost):
    leader = compacted("0:aabcd", 5, tombstones=3)

    if not is_lost:
        check_tombstones(follower, leader)
        return
    with pytest.raises(ReplicaLostError, match="behind tombstones"):
        check_tombstones(follower, leader)


# fmt: off
CUTS = [  # the follower, its leader under the next leadership, and whether it is lost
    pytest.param(compacted("0:aab", 3),       log("0:aa 1:c"),  True,  id="cut-below-its-target"),
    pytest.param(compacted("0:aab", 2),       log("0:aa 1:c"),  False, id="cut-at-its-target"),
    pytest.param(compacted("0:a", 3),         log("0:ab 1:c"),  True,  id="not-cut-but-its-leader-lacks-them-too"),
    pytest.param(compacted("0:a", 2),         log("0:ab 1:c"),  False, id="not-cut-and-its-leader-has-them"),
    pytest.param(compacted("", 3),            log("0:aa 1:c"),  False, id="without-records"),
    pytest.param(log("0:aab"),                log("0:aa 1:c"),  False, id="not-compacted"),
]
# fmt: on


@pytest.mark.parametrize("follower, leader, is_lost", CUTS)
def test_a_follower_is_not_cut_below_what_it_has_compacted(follower, leader, is_lost):
    def decide():
        return follow(follower, leader, leader_epoch=1, floor=Offset(0))

    if not is_lost:
        assert decide().leader_epoch == 1
        return
    with pytest.raises(ReplicaLostError, match="compaction has replaced"):
        decide()


def test_a_leader_whose_log_ends_below_its_target_lowers_it_and_a_sound_one_does_not():
    lacking, sound = compacted("0:aab", 9, finished=9), compacted("0:aab", 3, finished=3)

    lowered = operations.adopt(lacking, leader_epoch=1, truncate_to=None, floor=Offset(0))
    kept = operations.adopt(sound, leader_epoch=1, truncate_to=None, floor=Offset(0))

    assert lowered.compaction == CompactionProgress(compacted_below=3, finished_below=3)
    assert kept.compaction is None


@pytest.mark.parametrize("finished, is_read", [(4, False), (5, True), (8, True)])
def test_a_replica_is_read_and_joins_once_it_has_finished_what_every_member_has(finished, is_read):
    compaction = Compaction(compacted_below=8, cleaned_below=5)
    registered = replace(partition("1 2 3", isr="1 2", hw=10, leo=10), compaction=compaction)
    follower = replace(seen(3, 10), compacted_below=Offset(finished))

    joined = alter_isr(image_of(registered), report(seen(1, 10), seen(2, 10), follower))

    assert (joined is not None) == is_read
    if not is_read:
        with pytest.raises(NotLeaderOrFollowerError, match="not compacted as far"):
            check_readable(compacted("0:aab", 8, finished=finished), registered)


def test_an_unclean_leader_that_lacks_replaced_records_has_the_others_made_again():
    registered = partition("1 2 3", isr="1", leader=None, hw=10, start=0)
    looks = [
        replace(inspection(registered, each), log_end_offset=Offset(4), last_epoch=0)
        for each in (2, 3)
    ]
    looks[0] = replace(looks[0], compacted_below=Offset(6), log_end_offset=Offset(5))

    record = elect_by_inspections(
        image_of(registered, fenced="1"), looks, forced=frozenset({KEY})
    ).records[0]

    assert record.change.directories == (LOST, disk(2), LOST)
    assert "records that others below 6 had replaced" in record.cause


# fmt: off
AFTER_A_CUT = [  # compacted below, leadership that was adopted, and whether it is read and elected
    pytest.param(3, 0, False, id="it-lacks-what-the-cut-has-made-the-last-again"),
    pytest.param(2, 0, True,  id="it-lacks-only-what-is-replaced-still"),
    pytest.param(3, 1, True,  id="it-follows-and-the-image-is-old"),
]
# fmt: on


@pytest.mark.parametrize("below, fence, is_read", AFTER_A_CUT)
def test_a_log_that_is_compacted_above_an_unclean_election_proves_nothing_by_its_chain(
    below, fence, is_read
):
    state = compacted("0:aab", below, fence=fence)
    registered = partition(
        "1 2", isr="2", leader=2, epoch=1, hw=2, hw_epoch=0, hw_chain=state.chain_at(2), leo=2
    )

    if is_read:
        check_readable(state, registered)
        return
    with pytest.raises(NotLeaderOrFollowerError, match="lacks records that an unclean election"):
        check_readable(state, registered)


@pytest.mark.parametrize("below, leader", [(2, 2), (3, None)])
def test_such_a_log_is_elected_by_no_proof(below, leader):
    state = compacted("0:aab", below)
    registered = partition(
        "1 2", isr="1", leader=None, epoch=1, hw=2, hw_epoch=0, hw_chain=state.chain_at(2), leo=2
    )
    look = replace(
        inspection(registered, 2),
        log_end_offset=Offset(3),
        last_epoch=0,
        epoch_below_high_watermark=0,
        chain_digest=state.chain_digest,
        chain_at_high_watermark=state.chain_at(2),
        compacted_below=Offset(below),
    )

    records = elect_by_inspections(image_of(registered, fenced="1"), [look]).records

    assert [each.change.leader for each in records] == ([] if leader is None else [leader])
