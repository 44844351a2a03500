"""The demo model: built in, offline, and the same words for the same request.

It is an upstream like any other: a request is rendered in its dialect, its answer is read by its reader. What
it says is in `script`, in answer to what `wishes` finds in the prompt.
"""
