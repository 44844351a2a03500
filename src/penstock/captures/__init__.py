"""Captured streams: bytes of a file or a pipe, read, checked and translated."""
