"""What one partition's registration may become: leader, ISR, ELR, high watermark, log start.

In: a registration and what tasks have seen of its replicas.
Out: the changed registration as a record, or none.
"""
