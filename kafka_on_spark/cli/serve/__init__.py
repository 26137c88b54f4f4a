"""`serve`: the process that keeps a cluster going, as supervisors and probes see it.

In: options, signals, requests of probes.
Out: answers, log lines, an exit code. Begin with `serve`.
"""
