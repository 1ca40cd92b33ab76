"""The one path from text to relations: everything that reads text with a model goes through `Extractor`."""
