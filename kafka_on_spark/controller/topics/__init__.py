"""Topics: created, changed, deleted; and where new partitions' replicas go.

In: an image, a request, and a seeded random source.
Out: records, and the answer to the request.
"""
