"""What the page shows, as plain values that JSON has: from an image, a history or an answer. Pure.

Text from the cluster is left as it is: the page escapes it where it becomes a node.
"""
