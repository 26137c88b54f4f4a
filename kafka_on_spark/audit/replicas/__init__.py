"""What must hold of replicas' tables, of each alone and between replicas.

In: the steps of tables, with headers of segments.
Out: findings.
"""
