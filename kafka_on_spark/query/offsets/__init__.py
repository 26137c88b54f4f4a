"""Positions of queries and consumer groups: where they begin, stand and end.

In: positions as options give them (`earliest`, a time, an offset), an image, offsets for times.
Out: one offset a partition, a batch's end, a group's lag, and errors for lost records.
"""
