"""From the probabilities of tags to entities and relations (paper, section 5); no torch here.

`sentences.decode_sentences` is the way in. `entities` reads the sequence of words, `relations` the table of pairs.
"""
