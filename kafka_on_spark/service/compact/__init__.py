"""Decisions of compaction: looks at replicas' tables, and the commit of what follows from them.

In: an image, and the tables of compacted partitions. Out: the records of
`controller.partitions.compaction`. Replicas apply them in `service/maintain/compaction.py`.
"""
