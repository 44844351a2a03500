"""The version, in its own module so that any module can import it cheaply."""

VERSION = "0.1.0"
