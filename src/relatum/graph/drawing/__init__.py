"""A knowledge graph as one self-contained HTML page: no other file, no network; its list needs no script."""
