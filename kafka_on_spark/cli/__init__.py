"""The command line `kafka-on-spark`: Kafka's verbs and options, thin over the library.

In: Kafka's options and files.
Out: tables, JSON, exit codes. Nothing is decided here. Begin with `application` (where
each verb is, errors, exit codes) and `verbs` (what a verb's actions are given: the session of one
call).
"""

import sys

try:
    from kafka_on_spark.cli.application import main
except KeyboardInterrupt:  # the imports take a while, and Python would show where it was
    sys.stderr.write("kafka-on-spark: interrupted\n")
    sys.exit(130)

__all__ = ["main"]
