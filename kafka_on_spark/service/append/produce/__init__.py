"""Producers: their ids, epochs and sequences; and what a `Producer` decides of records sent singly.

In: records as they were sent, the time, what an append has answered. No threads, no clock.
Out: the records of the next append, how long to wait, outcomes for futures.
"""
