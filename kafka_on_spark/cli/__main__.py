"""`python -m kafka_on_spark.cli`, where no script is installed."""

from kafka_on_spark.cli.application import main

main()
