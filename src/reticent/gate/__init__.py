"""The only way out: sensitive data goes in, releases come out."""
