"""From the probabilities of tags to entities and relations (paper, section 5); no torch here.

`sentence.decode_sentence` is the way in. `entities` reads the sequence of words, `relations` the table of pairs.
"""
