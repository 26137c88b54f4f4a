"""A cluster as people ask for it: topics, brokers, histories, sizes.

In: an image, or the batches of the metadata log.
Out: plain rows for tables and pages. Nothing is decided.
"""
