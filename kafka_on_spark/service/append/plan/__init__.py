"""What executors are told of an append before they stage, and what they answer.

In: an image, options, and where partitions stood when the append began.
Out: a picklable plan for tasks; their answers, put together into parts by partition.
"""
