"""Rounds of replication: which replicas are fetched for or inspected, and what follows.

In: an image, quotas, and what earlier rounds of this process remember.
Out: one commit a round to the metadata log, and a report that says what was not inspected.
"""
