"""One call of the command line: its options, the cluster it opens or dry-runs, its output.

In: the options that many verbs share.
Out: an open session, tables, JSON, progress. Verbs import from here; nothing here knows a verb.
"""
