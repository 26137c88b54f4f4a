"""What would be or would have been: forecasts, other policies, dry runs, the metadata as of a time.

In: an image or the recorded history, and what shall be different.
Out: the controller's own decisions, which are committed nowhere.
"""
