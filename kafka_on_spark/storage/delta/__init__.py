"""Delta logs: the conditional commit, and what lies in a log.

In: actions and the version that they shall become.
Out: committed, conflict or unknown; the state of a table at a version.
"""
