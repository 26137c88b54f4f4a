"""Verbs on a whole cluster: brokers, controller, leaders, metadata, lost replicas.

In: Kafka's options.
Out: tables or JSON.
"""
