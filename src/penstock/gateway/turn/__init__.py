"""One turn, from the request to the verdict."""
