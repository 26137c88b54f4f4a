"""Kafka's quorum states of one voter, as values: each transition returns another one.

Reading order: `election_state` (what is durable), `timing`, `tally`, `vote_grants`, `epoch_states`,
`quorum_state` (the transitions), `leader_state` (what a leader knows of its followers).
"""
