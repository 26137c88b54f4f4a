"""Who decides: the controller's loop, one-shot commands, and what they inspect before they do.

In: probes of roots, requests in the metadata log, commands of people.
Out: committed decisions, and commands to the tables that they concern.
"""
