"""A voter's log as the quorum sees it: headers of batches, and what is looked up among them.

Reading order: `raft_log`, `runs` (old batches), `lookups` (where logs part), `snapshots`.
"""
