"""The only door: sensitive in, released out."""
