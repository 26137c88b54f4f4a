"""What a Producer decides: what goes with the next append, when, and what became of each record.

In: records as they were sent, the time, what an append has answered.
Out: the records of the next append, how long to wait, outcomes for futures. No threads, no clock.
"""
