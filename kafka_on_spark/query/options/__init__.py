"""Options of reads and writes, in the words of Spark's Kafka source and sink.

In: the mapping of names and texts that Spark passes; the columns of a frame.
Out: settings with every field checked, or an error that names the option.
"""
