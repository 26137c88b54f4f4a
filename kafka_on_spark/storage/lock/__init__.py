"""The commit lock of a machine's processes, and the reports that waiters queue at it.

In: a table's folder.
Out: a lock. It saves conflicts; a commit without it is as safe.
"""
