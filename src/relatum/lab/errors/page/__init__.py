"""The errors of a system as one self-contained HTML page: no other file, no network; it can be read without scripts.

`making.make_page` is the entry point. `loss` computes how wrong a sentence is, `sentences` prepares a sentence with
gold and found side by side, `overview` the tables above the sentences. errors.html is the template, errors.css its
style, and filter.js the few lines of script that filter the sentences.
"""
