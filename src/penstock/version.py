"""The version, where every room can read it without importing the public list."""

VERSION = "0.1.0"
