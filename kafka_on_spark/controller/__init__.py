"""Brokers, elections, ISRs, reassignments, topics; the loop, its rounds, and upkeep."""
