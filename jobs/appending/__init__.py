"""Parts of jobs/append.py: the source's files, and the lists of those that are appended."""
