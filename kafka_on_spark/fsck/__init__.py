"""The audit of a cluster: what is read, and in which order, so that rules can be applied to it.

In: the metadata roots, and the tables of replicas.
Out: findings, each with the invariant that it names.
"""
