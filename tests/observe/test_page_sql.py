"""The first question of docs/look-into-it.md to the metadata table shows leaders that stand.

It is asked without Spark.
"""

import re

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from kafka_on_spark.observe.tables import ISR_HISTORY
from tests.cluster.disks import new_disks, records
from tests.pages import page


def test_the_first_query_of_the_page_shows_the_leaders_that_stand():
    text = re.search(r'spark\.sql\(f?"""(.*?)"""\)', page("docs/look-into-it.md"), re.S)[1]
    with new_disks() as disks:
        cluster = disks.cluster
        cluster.create_topic("flights", partitions=4, replication_factor=3)
        cluster.append("flights", records(b"a"))
        disks.take_away(1)
        cluster.run_controller()
        table = DeltaTable(cluster.metadata_table)

        rows = (
            QueryBuilder()
            .register("metadata", table)
            .execute(text.replace("{ISR_HISTORY}", ISR_HISTORY))
        )

        found = pa.table(rows.read_all()).to_pylist()
        history = [
            each for each in cluster.history("flights") if (each.cause or "").startswith("broker 1")
        ]
        assert len(found) == len(history) == 4
        assert all(row["leader"] is not None for row in found)
        assert [(row["partition"], row["leader"], tuple(row["isr"])) for row in found] == [
            (each.partition, each.leader, each.isr) for each in history
        ]
