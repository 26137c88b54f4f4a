"""Rounds of replication: which replicas are fetched for or inspected, and what is committed then.

In: an image, quotas, and what earlier rounds of this process remember.
Out: one metadata commit a round, and a report that says what was not inspected.
"""
