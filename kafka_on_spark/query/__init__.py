"""What a read or a write asks for: options, partitions, positions, ranges. Pure.

In: options as Spark passes them, an image, and the offsets that replicas found for times.
Out: checked settings, the offsets between which a query reads, and read orders for tasks.
"""
