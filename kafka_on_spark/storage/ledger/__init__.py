"""The ledger of what is asked of roots: requests, bytes and CPU, by operation and topic.

In: calls, in the words of a store; operations that begin and end.
Out: sums. Begin with `ledger`. It knows no root and no client.
"""
