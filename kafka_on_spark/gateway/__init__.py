"""A gateway: Kafka's protocol in front of a cluster, for clients that speak nothing else.

It holds no data and decides nothing: it appends, reads and asks as any process does, and a cluster
works without it. Its messages are kio's, generated from Kafka's own schemas, and its record batches
aiokafka's compiled ones.
"""
