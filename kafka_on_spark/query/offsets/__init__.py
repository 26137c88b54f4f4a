"""Where a query, or a consumer group, stands, begins and ends.

In: positions in words (`earliest`, a time, an offset), an image, what replicas answered.
Out: one offset a partition, how far a batch goes, how far a group lags, and what is lost.
"""
