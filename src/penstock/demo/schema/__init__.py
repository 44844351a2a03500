"""Values that fit a JSON schema, made up from what a prompt says."""
