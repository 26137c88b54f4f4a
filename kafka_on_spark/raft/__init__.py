"""The metadata quorum's decisions: Kafka's Raft (KIP-595, 853, 996), where a voter is a table.

In: tables of voters as they were seen, and times, as values. Out: the commit to make on one table,
or what is known of the quorum. Nothing here reads a clock, draws, makes an id or touches a store.
Reading order: `voter_set` (the nouns), `log/` (a voter's log and what is looked up in it),
`tables/` (a voter's table and the commits that are made on it),
`quorum/` (what follows from several tables: what is committed, who stands, who votes).
"""
