"""Reads for audits: the steps of tables' logs, the bytes of segments, the files on the roots.

In: the address of a replica, or a cluster's roots.
Out: kept versions, contents and names. Nothing is remembered, and nothing is written.
"""
