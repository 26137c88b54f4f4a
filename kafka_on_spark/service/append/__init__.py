"""An append from staged files to an acknowledgement.

In: staged segments, `acks`, a producer's run.
Out: the offsets of each partition's batches, once they are as safe as `acks` asks.
"""
