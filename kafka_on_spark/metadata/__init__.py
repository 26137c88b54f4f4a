"""The metadata log: its records, its image, and the service that catches up and submits."""
