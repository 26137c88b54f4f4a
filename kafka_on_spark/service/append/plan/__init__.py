"""Plans of appends: the order that tasks get before they stage, and what their answers make.

In: an image, options, and the logs of an expanded topic's leaders.
Out: a picklable order for tasks; staged parts by partition; results.
"""
