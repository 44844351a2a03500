"""What every network connection needs: URLs, proxies, TLS, masking of secrets, network errors."""
