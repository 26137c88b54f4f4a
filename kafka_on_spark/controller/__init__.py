"""Decisions on the cluster: pure functions of an image and what was seen.

Reading order: `result`, `election` (who leads), `brokers` (failure and return), `isr` and
`high_watermark` (what a replication round leads to), `placement` and `topics`, `lease` (who
decides). Each returns records to commit and an answer; none reads a clock or touches a store.
"""
