"""Resolve what a request refers to: earlier responses, conversations, items, compactions."""
