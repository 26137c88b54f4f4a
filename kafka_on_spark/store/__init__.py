"""Roots on disks and object stores: calls with deadlines, credentials, identity."""
