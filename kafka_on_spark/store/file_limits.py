"""How large each kind of file on a root can be: no file is read before its size is checked.

Without these limits a writer to one root could exhaust the memory of every process that reads it.
A segment's file must have the size that its commit names; a limit here bounds that size, too.
"""

from typing import Final

SMALL_FILE_BYTES_MAX: Final = 2**16
"""Of a file of a few lines: ``meta.properties``, a hint."""

COMMIT_BYTES_MAX: Final = 2**26
"""Of a commit file: a segment takes 700 bytes of one, and a commit names 16,384 of them at most,
where others can follow in another one (`FILES_A_CHANGE_MAX`), and twice as many where they are one
append's (`SEGMENTS_A_BATCH_MAX`) or a follower gives them up. A larger one is not put."""

CHECKPOINT_BYTES_MAX: Final = 2**30
"""Of a checkpoint: 300,000 counters take 16 MB."""

METADATA_FILE_BYTES_MAX: Final = 2**30
"""Of a snapshot or a file of metadata records: a million partitions take 100 MB."""

PRODUCERS_BYTES_MAX: Final = 2**30
"""Of a producer-state file: 100,000 producers take about 6 MB."""

SEGMENT_BYTES_MAX: Final = 2**32
"""Of a segment: a task holds 192 MiB of a partition, and one more Arrow batch, whose columns have
two gigabytes at most."""

ROWS_MAX: Final = 2**27
"""Rows of a checkpoint, a snapshot or a file of metadata records."""

UNCOMPRESSED_BYTES_MAX: Final = 2**32 + 2**28
"""Of such a file or a segment, as its footer says: a decompression bomb packs terabytes into a
megabyte."""
