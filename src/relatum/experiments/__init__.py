"""The tables of the paper, made again with the published numbers beside.

`paper` has the tables as data; `settings` turns a row into what `relatum train` takes, `planning` finds the runs that
are there and those that are missing, `running` makes them, `measuring` reads their scores, and `rendering` shows the
record of a table, which `record` makes and which is all that is needed to show it again.
"""
