"""Verbs on topics: `topics`, `configs`, `reassign-partitions`, replicas, replication.

In: Kafka's options and files.
Out: tables or JSON.
"""
