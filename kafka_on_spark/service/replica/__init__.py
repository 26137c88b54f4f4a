"""One replica's table: where it is, one operation on it, its creation, its log start.

In: an address and an operation of `log/`.
Out: the replica's new state; an operation that lost its version was decided again.
"""
