"""The attention of a model, and its agreement with entities and relations."""
