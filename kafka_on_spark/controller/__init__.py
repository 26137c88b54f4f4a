"""Decisions on the cluster: pure functions of an image and of what tasks have seen.

In: an image, reports, commands; never a clock, a random source of its own or a store.
Out: a `result`: records to commit, and an answer. Begin with `partitions/election`.
"""
