"""Verbs on consumer groups and offsets: `consumer-groups`, `get-offsets`.

In: Kafka's options.
Out: tables or JSON.
"""
