"""Verbs on consumer groups and offsets: `consumer-groups`, `get-offsets`, `delete-records`.

In: Kafka's options.
Out: tables or JSON.
"""
