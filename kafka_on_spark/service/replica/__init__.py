"""One replica's table: its address, operations on it, its creation, and its log start.

In: an address, and an operation of `log/`.
Out: the replica's new state; after a conflict the operation was decided again.
"""
