"""Replicas as Delta tables: segments, headers, readers, and evidence that a replica is wrong.

In: an address, and an operation that `log/` decided.
Out: states, records as Arrow batches, and what an audit reads.
"""
