"""Delta logs: the conditional commit, and the files of a log.

In: actions, and the version at which to commit them.
Out: committed, conflict or unknown; the state of a table at a version.
"""
