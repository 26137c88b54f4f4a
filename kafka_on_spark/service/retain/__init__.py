"""Retention: looks at leaders' logs, decides new log starts together, and has replicas apply them.

In: an image, and the clocks of this process and of the leaders' roots.
Out: one commit with the new log starts and their causes, and a report of what is due next.
"""
