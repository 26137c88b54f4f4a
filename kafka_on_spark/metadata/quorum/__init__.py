"""The voters of the metadata log: votes, elections, forced generations."""
