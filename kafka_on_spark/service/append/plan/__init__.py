"""Plans of appends: the order that tasks get before they stage, and what their answers make.

In: an image and options.
Out: a picklable order for tasks; staged parts by partition; results.
"""
