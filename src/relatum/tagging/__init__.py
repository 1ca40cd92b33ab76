"""Between annotations and the tags a model learns: `sequence` for entities, `table` for relations.

Each turns an annotation into tags and back, and reports whatever the tags cannot express.
"""
