"""Looking inside: what every layer says, where its heads look, and how likely it finds what is right."""
