"""What a report says of two logs beside each other."""

import pytest

from kafka_on_spark.service.replicate.fetching.fetch_reports import ends_alike
from tests.builders import log

# fmt: off
ALIKE = [  # follower          leader        is the leader's log up to its end
    pytest.param(log("0:ab"),  log("0:abc"), True,  id="behind"),
    pytest.param(log("0:abc"), log("0:abc"), True,  id="as long"),
    pytest.param(log("0:ax"),  log("0:abc"), False, id="another record"),
    pytest.param(log("0:abc"), log("0:ab"),  False, id="longer than the leader's"),
]
# fmt: on


@pytest.mark.parametrize("follower, leader, expected", ALIKE)
def test_logs_are_alike_by_the_chain_at_the_followers_end(follower, leader, expected):
    assert ends_alike(follower, leader) is expected


def test_an_emptied_log_is_alike_only_up_to_the_leaders_end():
    leader = log("0:ab")

    def emptied(end):
        return log("", base=end, chain_before=leader.chain_digest)

    assert ends_alike(emptied(2), leader)
    assert not ends_alike(emptied(3), leader)
