"""Loops and order: what is asked of the ports, when, and again.

Reading order: `metadata_service` (catch up, decide, commit), `replicas` (one operation on one
table), `addresses`, `replication` (a fetch, and a round of them), `appender` (from staged files
to an acknowledgement), `reading` (what a consumer may see), `controller_loop`. Holds state and
order; every rule it applies stands on a floor below.
"""
