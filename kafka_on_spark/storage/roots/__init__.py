"""Storage roots: URLs of folders, with credentials, identity and flushing.

In: a URL and storage options.
Out: whole files and listings; which cluster, broker and disk a root belongs to.
"""
