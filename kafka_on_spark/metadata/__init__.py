"""The nouns of the cluster, and replay: what the metadata log's records mean.

Reading order: `broker` and `partition` (registrations), `records` (what is committed), `image`
(everything as of one metadata offset, changed by `replay` alone), `codec` (records as rows of
typed columns). Knows no decision and no table.
"""
