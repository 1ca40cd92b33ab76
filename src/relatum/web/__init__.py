"""The server: HTTP in front of `Extractor`, and the page."""
