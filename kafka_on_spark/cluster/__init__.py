"""What users hold: one object for a cluster, thin over the services.

In: calls of notebooks, jobs and the command line, in Kafka's words.
Out: answers as plain values, tables and frames; errors as one sentence.
"""
