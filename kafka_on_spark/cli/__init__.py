"""The command line `kafka-on-spark`: Kafka's verbs and options, thin over the library.

In: Kafka's options and files.
Out: tables, JSON, progress, exit codes. Nothing is decided here. Begin with `application` (the
verbs, errors, exit codes) and `call/session` (a cluster opened for one call).
"""

from kafka_on_spark.cli.application import main

__all__ = ["main"]
