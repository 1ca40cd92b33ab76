"""The search for better settings on dev."""
