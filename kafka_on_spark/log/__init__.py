"""What one replica's log says: decisions on one replica's state, from values alone.

In: a replica's state at one version, and what shall happen to it.
Out: the change to it as values. Reading order: `batch` (the nouns), `state`, `epochs`,
`producer_state` (idempotence), `operations` (each as a decision), `follower/`.
"""
