"""What a system gets wrong as one HTML page that needs nothing else: no other file, no network, no script to be read.

`making.make_page` is the way in. `loss` says how wrong a sentence is, `sentences` shows one with gold and found side by
side, `overview` has the tables above them, and `look` the style and the few lines of script that filter.
"""
