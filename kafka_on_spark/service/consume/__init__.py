"""A consumer at work: which partition it reads next, what it hands out, and what it commits.

`consuming` is its loop; `member`, which the consumer's own thread calls, its place in a group;
`witness` what members do for each other meanwhile.

In: a subscription, settings, and calls of one thread at a time.
Out: rows of one partition after the other, in offset order, and commits of its group's offsets.
"""
