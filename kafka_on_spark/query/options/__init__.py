"""Options of reads and writes, in the words of Spark's Kafka source and sink.

In: the mapping of names and texts that Spark hands over; the columns of a frame.
Out: settings whose every field is checked, or an error that names the option.
"""
