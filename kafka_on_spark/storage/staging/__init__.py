"""An append's first stage, in tasks: records become staged segments. Nothing is committed.

In: Arrow batches and an order.
Out: Parquet files on the roots of leader and ISR, and a row for each.
"""
