"""The consumer that users hold: `Cluster.consumer` makes one. Begin with `consumer`.

In: calls of one thread, in the words of Kafka's consumer.
Out: tables of records or records one by one, positions and commits.
"""
