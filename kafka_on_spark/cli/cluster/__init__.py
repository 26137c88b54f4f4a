"""Verbs on a whole cluster: brokers, controller, leaders, metadata, losses.

In: Kafka's options.
Out: tables or JSON.
"""
