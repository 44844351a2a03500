"""One turn from the prepared request to the verdict."""
