"""Positions, offsets, consumers and their groups."""
