"""The nouns of the cluster, and replay: what the metadata log's records mean.

In: records as rows of typed columns (`codec`).
Out: an image as of one metadata offset, changed by `replay` alone. Reading order: `broker` and
`partition` (registrations), `records` (what is committed), `image`.
"""
