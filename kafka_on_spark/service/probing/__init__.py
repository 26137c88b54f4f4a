"""What is asked before a decision: whether roots answer, what replicas without a leader hold.

In: brokers and partitions of an image.
Out: answers of roots, and reports of replicas, as decisions take them.
"""
