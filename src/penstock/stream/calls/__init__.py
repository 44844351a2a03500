"""Tool calls: from fragments to calls that are announced once and closed once."""
