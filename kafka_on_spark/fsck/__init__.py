"""The invariants of a cluster, and what reads its tables for them."""
