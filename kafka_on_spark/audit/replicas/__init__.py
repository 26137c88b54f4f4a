"""What must hold of replicas' tables, each for itself and against each other.

In: tables as traces, headers and segments.
Out: findings.
"""
