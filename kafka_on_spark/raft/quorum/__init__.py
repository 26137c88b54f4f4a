"""What follows from several voters' tables, seen at different times.

Reading order: `leader_view` (what is committed, what a read needs), `elections` (when one is due,
who stands), `outcomes` (what became of a write), `voter_changes`, `discovery` (which voters),
`creation`, `generations` (a majority lost for ever).
"""
