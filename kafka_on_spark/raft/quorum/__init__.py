"""What follows from several voters' tables, seen at different times.

Reading order: `leader_view` (what is committed, what a read needs), `elections` (when one is due,
who stands, which voters there are), `voter_changes`,
`creation`, `generations` (a majority lost for ever), `description` (what people are told).
"""
