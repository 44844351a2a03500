"""Traces and metrics for OpenTelemetry, exported over OTLP/HTTP. Imported only if they are turned on."""
