"""What files of a root can be at most: none is read before it is known to be within that.

Whoever can write to one root could else take all memory of every process that looks there. A
segment's file must have the size that its commit says, and that is bounded here, too.
"""

from typing import Final

SMALL_FILE_BYTES_MAX: Final = 2**16
"""Of what has a few lines: ``meta.properties``, a hint, a note."""

COMMIT_BYTES_MAX: Final = 2**26
"""Of a commit file: a segment takes 700 bytes of one, and a fetch commits a thousand at most."""

CHECKPOINT_BYTES_MAX: Final = 2**30
"""Of a checkpoint: 300,000 counters take 16 MB."""

METADATA_FILE_BYTES_MAX: Final = 2**30
"""Of a snapshot or a file of metadata records: a million partitions take 100 MB."""

SEGMENT_BYTES_MAX: Final = 2**32
"""Of a segment: what a task holds of a partition, 192 MiB, and one Arrow batch more, whose columns
have two gigabytes at most."""

ROWS_MAX: Final = 2**27
"""Rows of a checkpoint, a snapshot or a file of metadata records."""

UNCOMPRESSED_BYTES_MAX: Final = 2**32 + 2**28
"""Of such a file or a segment, as its footer has it: a bomb has terabytes in a megabyte."""
