"""What one replica's log says: decisions on one replica's state, from values alone.

Reading order: `batch` (the nouns), `state` (a replica at one version, and a change to it),
`epochs` and `truncation` (where two logs part), `producer_state` (idempotence), `operations`
(each operation as a decision), `retention`. Knows no table, no file and no other replica's
whereabouts.
"""
