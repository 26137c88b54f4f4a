"""What is read of each partition: which range, from which replicas, in which tasks.

In: an image, and the offsets between which to read.
Out: picklable read orders, checked against the image.
"""
