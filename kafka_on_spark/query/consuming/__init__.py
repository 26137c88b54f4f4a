"""What a consumer asks for: its settings, and where it stands in each partition.

In: a consumer's settings, an image, and the positions that the consumer had.
Out: checked settings, positions to read from, and errors where records were lost.
"""
