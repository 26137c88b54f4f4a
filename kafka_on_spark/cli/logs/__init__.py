"""Verbs on what lies in tables: `dump-log`, `fsck`.

In: Kafka's options, or a folder.
Out: records, findings, an exit code.
"""
