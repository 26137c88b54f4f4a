"""What must hold of the metadata log, commit by commit, and of what it names.

In: the log's table as a trace, with its batches; what lies on the roots.
Out: findings.
"""
