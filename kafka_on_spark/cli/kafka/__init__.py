"""The formats of Kafka's tools: their files, their names of topics and partitions, their spellings.

In: files that Kafka's tools take.
Out: values, and files in the same form.
"""
