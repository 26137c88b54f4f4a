"""A topic as a frame that the JVM scans itself, without Python.

In: a view plan.
Out: a DataFrame over the segments of replicas.
"""
