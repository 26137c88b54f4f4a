"""What Kafka's tools write: their files and their spellings of words.

In: files that Kafka's tools take.
Out: values, and files in the same form.
"""
