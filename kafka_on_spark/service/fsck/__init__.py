"""The audit of a cluster: what is read, in which order, so that it can be judged.

In: the ports of the metadata log, of replicas' tables and of roots.
Out: findings, each with the invariant that it names.
"""
