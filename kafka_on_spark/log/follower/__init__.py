"""What a follower does with its leader's log: where they part, what it copies, whom it follows.

In: the states of both replicas.
Out: an operation on the follower's table, or why there is none.
"""
