"""`POST /v1/parts`: joins the gateway and the provider."""
