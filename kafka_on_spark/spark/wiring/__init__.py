"""One process's services, wired to Delta tables, files and a task runner.

In: a metadata root, storage options, perhaps a session.
Out: services that are ready to be called.
"""
