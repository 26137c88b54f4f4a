"""When a replica is fetched for or inspected, and how much a fetch may copy. For liveness only.

In: an image, quotas, and what a process remembers.
Out: which partitions, how many bytes, and when again.
"""
