"""A follower and its leader's log: where they diverge, what is fetched, which requests are refused.

In: the states of both replicas.
Out: an operation on the follower's table, or why there is none.
"""
