"""Looking inside a model: the findings of every layer, the attention of its heads, and its loss on gold."""
