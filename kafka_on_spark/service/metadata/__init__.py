"""The metadata log as one process sees it: catch up, decide, commit.

In: decisions of `controller/` and reports of replicas.
Out: images, committed batches, or one of the three outcomes of a commit.
"""
