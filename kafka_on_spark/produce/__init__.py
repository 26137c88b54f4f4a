"""Appends: what goes where, idempotence, and the producer."""
