"""The metadata log over several voters: a process's part in the quorum, through voters' tables.

In: the calls of the MetadataLog port. Out: commits on voters' tables, each decided in `raft/`.
Any process acts for any voter. Reading order: `ports` (what is asked of a voter's root),
`voter_tables` (what was seen of them, the bound on calls, and how one follows), `elections`,
`leadership` (what looks show, who leads, and a majority that confirms it),
`writer` (a decision, and what became of it),
`quorum_log` (the port), `creating` (the log of a new cluster).
"""
