"""The commit lock of a machine's processes, and the reports that waiters queue at it.

In: a table's folder.
Out: a turn. It saves conflicts; nothing is wrong without it.
"""
