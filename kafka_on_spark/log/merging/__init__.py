"""Merging one log: what is due, and whether an append still stands once its batch was merged."""
