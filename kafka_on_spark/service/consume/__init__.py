"""A consumer at work: which partition it reads next, what it hands out, and what it commits.

In: a subscription, settings, and calls of one thread at a time.
Out: rows of one partition after the other, in offset order, and commits of its group's offsets.
"""
