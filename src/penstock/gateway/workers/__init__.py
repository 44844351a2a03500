"""Several worker processes on one machine, which share the listening sockets and the store.

`supervisor` starts and replaces the workers, `worker` is what each of them runs, and `messages` is what they
say to each other.
"""
