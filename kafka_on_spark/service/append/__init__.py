"""An append, from its plan to an answer: staged → placed → appended → acknowledged.

In: options of an append, then the segments that its tasks have staged.
Out: an order for tasks, then the offsets of each partition's batches, as safe as `acks` asks.
"""
