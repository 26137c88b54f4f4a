"""Which cluster, broker and disk a root is, and whether it may be one.

In: a root's URL, and what its `meta.properties` says.
Out: its identity, or the error that says why it can't be used.
"""
