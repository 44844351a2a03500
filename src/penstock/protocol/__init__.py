"""The OpenResponses wire as types."""
