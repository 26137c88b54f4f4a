"""The metadata log as a Delta table, and what lies beside it on its root.

In: batches of records to commit at a metadata offset.
Out: committed batches, snapshots of the image, the cluster's identity.
"""
