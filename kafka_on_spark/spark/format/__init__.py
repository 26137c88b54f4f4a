"""`format("kafka_on_spark")`: batch and stream reads and writes.

In: options and frames as Spark passes them.
Out: partitions, Arrow batches, commit messages, offsets as JSON.
"""
