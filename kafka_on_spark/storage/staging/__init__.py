"""Records into staged segments: what an executor does of an append. Nothing is committed.

In: Arrow batches and a plan.
Out: Parquet files on the roots of leader and ISR, and their headers.
"""
