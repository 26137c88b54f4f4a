"""The page of a cluster and its server."""
