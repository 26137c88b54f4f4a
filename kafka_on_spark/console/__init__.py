"""The console: a local web page of a cluster that moves as the cluster does.

In: an open cluster, requests of a browser on the same machine.
Out: views as JSON, events of the metadata log, and the files of the page. Begin with `views` (what
the page shows, pure), then `following` (one follower for all pages), `application` and `guard`.
"""
