"""Which tool a call means, and how each family of tools stands on the wire."""
