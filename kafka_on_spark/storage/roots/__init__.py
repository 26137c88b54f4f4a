"""Storage roots: URLs of folders, read, listed, written and flushed.

In: a URL and storage options.
Out: whole files and listings; a file is read only if its size is allowed.
"""
