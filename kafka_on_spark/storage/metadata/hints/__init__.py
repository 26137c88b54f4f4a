"""Hints on the metadata roots: what one process leaves for the next, and which may be lost.

In: what a round has done. Out: small files that any process replaces, and whose content is never
trusted. Nothing fails where they can't be read or written.
"""
