"""The audit of a cluster: what is read, and in which order, so that rules can be applied to it.

In: the ports of the metadata log, of replicas' tables and of roots.
Out: findings, each with the invariant that it names.
"""
