"""Sessions, the source, the sink, and views."""
