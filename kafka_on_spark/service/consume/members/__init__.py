"""A consumer as a member of its group. Begin with `membership`, which the consumer's own thread
calls; `witness` is what members do for each other meanwhile, `share_pace` when one shares out,
`retries` when one tries again.

In: the image, heartbeats, positions. Out: commits, and which partitions the consumer may hand out.
"""
