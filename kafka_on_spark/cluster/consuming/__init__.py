"""The consumer that users hold: `Cluster.consumer` makes one. Begin with `consumer`; `handouts` is
what its calls for records do.

In: calls of one thread, in the words of Kafka's consumer.
Out: tables of records or records one by one, positions and commits.
"""
