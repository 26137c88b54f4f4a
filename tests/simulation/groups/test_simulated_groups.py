"""Groups whose members are killed, frozen and added: nothing is skipped, and each rule is needed."""

import math

import pytest

from kafka_on_spark.consume import consuming, member
from kafka_on_spark.controller import topics
from kafka_on_spark.groups import liveness, membership, offsets
from kafka_on_spark.metadata.image import ControllerResult
from tests.simulation.groups.world import run_seed

SEEDS = 4
SEEDS_LONG = 100
SEEDS_OF_MUTANTS = 200


def run_seeds(seeds):
    """Run seeds; the first that fails is named."""
    for seed in seeds:
        try:
            run_seed(seed)
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


def test_whatever_happens_to_members_nothing_is_skipped_and_all_is_processed():
    run_seeds(range(SEEDS))


@pytest.mark.long
def test_it_is_so_with_more_seeds():
    run_seeds(range(SEEDS, SEEDS_LONG))


def saves_offsets_of_what_it_does_not_own(patch):
    def wrong(image, group, processed, member, now_ms):
        records = offsets.saved_positions(image, group, processed, member, now_ms)
        return ControllerResult(records, None)

    patch.setattr(offsets, "check_may_commit", lambda *_: None)
    patch.setattr(consuming, "save_positions", wrong)


def takes_what_another_owns(patch):
    patch.setattr(membership, "_owned_by_others", lambda group, member_id: set())


def gives_up_before_the_offsets_are_saved(patch):
    patch.setattr(membership, "_saved", lambda *_: [])


def goes_on_without_asking(patch):
    patch.setattr(member, "ASKED_MS", math.inf)
    patch.setattr(member.Member, "_is_known", lambda self, image: self._is_member)


def fences_by_looks_from_before_it_was_frozen(patch):
    patch.setattr(liveness, "_gap_ms", lambda session_ms: math.inf)


def begins_where_a_partition_ends_when_it_looks(patch):
    def wrong(*arguments, begins_at, **others):
        return membership.follow_target(*arguments, begins_at=None, **others)

    patch.setattr(member, "follow_target", wrong)


def reads_added_partitions_as_any_other(patch):
    patch.setattr(membership, "_begun_partitions", lambda *_: ())


def reads_topics_created_anew_as_any_other(patch):
    patch.setattr(topics, "_beginnings", lambda *_: ())


def lets_offsets_be_old_as_the_last_member_goes(patch):
    patch.setattr(membership, "needs_saving_again", lambda *_: False)


MUTANTS = {
    saves_offsets_of_what_it_does_not_own: "I30|skipped|given up",
    takes_what_another_owns: "I30",
    gives_up_before_the_offsets_are_saved: "offsets stand before",
    goes_on_without_asking: "asks before it hands out",
    fences_by_looks_from_before_it_was_frozen: "who beats",
    begins_where_a_partition_ends_when_it_looks: "skipped",
    reads_added_partitions_as_any_other: "skipped",
    reads_topics_created_anew_as_any_other: "skipped",
    lets_offsets_be_old_as_the_last_member_goes: "half of their time left",
}

FIRST_SEEDS = {
    goes_on_without_asking: 4,
    fences_by_looks_from_before_it_was_frozen: 3,
    begins_where_a_partition_ends_when_it_looks: 5,
    lets_offsets_be_old_as_the_last_member_goes: 1,
}
"""Where the search for a seed that shows a mutant begins, if the first does not show it."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.__name__)
def test_a_rule_that_is_left_out_is_found(mutant, monkeypatch):
    first = FIRST_SEEDS.get(mutant, 0)
    mutant(monkeypatch)

    with pytest.raises(AssertionError, match=MUTANTS[mutant]):
        run_seeds(range(first, first + SEEDS_OF_MUTANTS))
