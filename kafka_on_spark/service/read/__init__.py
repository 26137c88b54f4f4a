"""Reads of replicas for a consumer, from one replica after another until one can serve.

In: read orders (query/reads), and questions for the offset of a time.
Out: a range's segments in offset order, the files of a view, and offsets.
"""
