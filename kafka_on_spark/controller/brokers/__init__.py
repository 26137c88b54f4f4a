"""What happens to a broker: registration, failure, return, draining, silence.

In: an image and what probes met.
Out: records for the broker and for all of its partitions.
"""
