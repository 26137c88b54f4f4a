"""The formats of Kafka's tools: their files, names of topics and partitions, spellings, properties.

In: files that Kafka's tools take.
Out: values, and files in the same form.
"""
