"""What a system gets wrong, of which kind, where, and what each kind costs.

`analysis.analyse` is the way in: pairs of gold and found documents become an `ErrorAnalysis`, which `tables` shows and
which has a `to_dict`. `entities` and `relations` match gold with found, one to one, and name the kind of every error;
`kinds` counts them and says what F1 would be without them, `breakdowns` divides them, `listing` shows sentences.
"""
