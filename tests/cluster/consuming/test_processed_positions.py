"""What stays committed, and what is handed out, when a consumer fails or reads other partitions."""

import pytest

from tests.cluster.disks import records

SOON = 20_000
"""Milliseconds within which anything must come."""


def consumer_of(cluster, topic, *, is_member, **options):
    what = {"topics": topic} if is_member else {"partitions": [(topic, 0)]}
    return cluster.consumer(**what, group=topic, auto_offset_reset="earliest", **options)


# fmt: off
COMMITS = [  # what is committed by request, of three records     where a group stands then: after a poll, a loop
    pytest.param(None, 3, 3, id="the positions"),
    pytest.param(3,    3, 3, id="the end of what is in hand"),
    pytest.param(2,    2, 2, id="an offset in what is in hand"),
    pytest.param(0,    0, 2, id="an offset below what is in hand"),
]
# fmt: on


@pytest.mark.parametrize("is_member", [True, False], ids=["member", "no member"])
@pytest.mark.parametrize("committed, after_poll, after_loop", COMMITS)
def test_what_was_committed_by_request_stays_so_when_the_consumer_fails(
    cluster, new_topic, committed, after_poll, after_loop, is_member
):
    def commit_and_fail(topic, ask):
        with consumer_of(cluster, topic, is_member=is_member) as consumer:
            ask(consumer)
            assert consumer.position((topic, 0)) == 3
            consumer.commit(None if committed is None else {(topic, 0): committed})
            raise RuntimeError("it fails")

    def offset_after(ask):
        topic = new_topic()
        cluster.append(topic, records(b"a", b"b", b"c"))
        with pytest.raises(RuntimeError, match="it fails"):
            commit_and_fail(topic, ask)
        return cluster.describe_group(topic)[0].offset

    assert offset_after(lambda consumer: consumer.poll(SOON)) == after_poll
    assert offset_after(lambda consumer: [next(consumer) for _ in range(3)]) == after_loop
