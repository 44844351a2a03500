"""Tool identity: which declared tool a call refers to, and the wire format of each family of tools."""
