"""A voter's table, and each commit that may be made on it, as a decision.

Vote, leader and log are one atomic state, because they are counters and batches of one table.
Reading order: `voter_table`, `candidacy`, `following`, `appending`.
"""
