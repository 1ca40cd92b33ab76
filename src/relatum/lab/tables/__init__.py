"""The tables of the paper, made again with the published numbers beside.

`paper` has the tables as data; `settings` turns a row into the settings that `relatum train` takes, `planning` finds
which runs are there and which are missing, `running` makes the missing runs, `measuring` reads the scores of runs,
`recording` gathers them in the `record` of a table, and `rendering` shows the table from its record alone.
"""
