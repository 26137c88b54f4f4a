"""What a read or a write asks for: options, partitions, positions. Pure.

In: options as Spark hands them over, an image, and the offsets that replicas were asked for.
Out: settings that are checked, and the offsets between which a query reads.
"""
