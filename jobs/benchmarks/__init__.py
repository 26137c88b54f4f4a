"""The measurements of `jobs/benchmark.py`: each against the budget of DESIGN §16.

`report` is pure: rows, ratios, JSON and text. `bench` holds what the measurements share;
`throughput` needs a Spark session, `small_append`, `failover` and `opening` need none.
"""
