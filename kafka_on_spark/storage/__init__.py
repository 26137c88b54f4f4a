"""The adapters to files and Delta tables: the only code that knows either.

Reading order: `roots` (URLs, credentials, flushing), `delta` (the conditional commit),
`hashing` and `segments` (records as files), `replica_log` and `metadata_log` (the two kinds of
table), `clock`. Decides nothing that a floor below could decide.
"""
