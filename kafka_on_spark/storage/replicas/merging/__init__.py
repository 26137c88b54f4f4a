"""Merged segments as files: written from several, read by parts, with where each append ended.

In: segments of a replica. Out: one file of them, and its borders. Begin with `merged_files`.
"""
