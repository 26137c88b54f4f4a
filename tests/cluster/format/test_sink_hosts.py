"""Tasks of a sink write from other hosts than the one that commits."""

from socket import gethostname

from kafka_on_spark.produce.staging import StagedSegment, StagedTopic, encode_topic
from kafka_on_spark.spark.sink import StagedMessage, _reached_elsewhere
from tests.builders import segment


def staged(host, *holders):
    row = StagedSegment(partition=0, segment=segment("a"), holders=holders)
    topics = [encode_topic(StagedTopic(topic="orders", partition_count=1, rows=(row,)))]
    return StagedMessage(task=0, topics=topics, query_id=None, image_offset=0, host=host)


def test_a_broker_that_tasks_on_other_hosts_have_written_to_counts_as_reached():
    assert _reached_elsewhere([staged(gethostname(), 1, 2), staged("other", 2, 3)]) == {2, 3}


def test_tasks_on_this_host_reach_what_this_process_reaches():
    assert _reached_elsewhere([staged(gethostname(), 1, 2)]) == set()
