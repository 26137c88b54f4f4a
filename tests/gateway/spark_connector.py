"""A job of Spark's Kafka connector: prints the rows of a topic, and copies it twice."""

import json
import sys
import tempfile

from pyspark.sql import SparkSession

address, topic, jars = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", jars)
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
server = {"kafka.bootstrap.servers": address}
copy = {**server, "topic": f"{topic}-copy"}
read = {**server, "subscribe": topic, "includeHeaders": "true", "startingOffsets": "earliest"}

rows = spark.read.format("kafka").options(**read).load()
found = [
    (
        each.partition,
        each.offset,
        each.key.decode(),
        each.value.decode(),
        round(each.timestamp.timestamp() * 1000),
        each.timestampType,
        [(h.key, h.value.decode()) for h in each.headers],
    )
    for each in rows.orderBy("partition", "offset").collect()
]
rows.select("key", "value").write.format("kafka").options(**copy).save()
stream = spark.readStream.format("kafka").options(**read).load().select("key", "value")
with tempfile.TemporaryDirectory() as checkpoint:
    query = stream.writeStream.format("kafka").options(**copy, checkpointLocation=checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()
sys.stdout.write(f"{json.dumps(found)}\n")
