"""The OpenResponses wire format as types."""
