"""What a consumer may read of a partition, from which replica, in which tasks.

In: an image and the offsets between which to read.
Out: picklable read orders, and offsets that replicas found for a time.
"""
