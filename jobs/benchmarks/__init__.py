"""The measurements of `jobs/benchmark.py`, each with its budget; docs/measured.md shows them.

`report` is pure: rows, ratios, JSON and text. `bench` holds what the measurements share;
`throughput` needs a Spark session, `small_append`, `failover` and `opening` need none.
"""
