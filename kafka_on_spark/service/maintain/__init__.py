"""Upkeep: what keeps each replica small, a bounded share at a time, or all that is due at once.

In: an image, and the share of time and bytes that upkeep may take.
Out: an order a replica for a task, and rows of what each kind of work has done and left.
"""
