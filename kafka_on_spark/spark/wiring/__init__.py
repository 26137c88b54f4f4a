"""One process's services, wired to Delta tables, files and a task runner.

In: a metadata root, storage options, perhaps a session.
Out: services that are ready to be called. Begin with `services` (what every process has that opens
a cluster) and `keeping` (what keeps a cluster going, made once it is asked for).
"""
