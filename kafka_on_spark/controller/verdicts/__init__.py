"""What a round's reports lead to: high watermarks, ISRs, and which replicas are bad or good again.

In: an image and the reports of all replicas that a round inspected.
Out: one decision for all partitions.
"""
