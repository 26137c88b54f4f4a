"""Controlling the cluster: the controller's loop, one-shot commands, and their inspections.

In: probes of roots, requests in the metadata log, commands of people.
Out: committed decisions, and commands to the tables of changed leaders.
"""
