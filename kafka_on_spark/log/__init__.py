"""One replica's log: its state, and the operations on it as decisions from values alone.

In: a replica's state at one version, and the operation to decide.
Out: the change to commit, as a value. Reading order: `batch` (the nouns), `state`, `epochs`,
`producer_state` (idempotence), `operations` (each as a decision), `follower/`.
"""
