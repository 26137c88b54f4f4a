"""What must hold of the metadata log, commit by commit, and of the files that it names.

In: the steps of the log's table, with its batches; a list of what lies on the roots.
Out: findings.
"""
