"""How good a captioner is: scores, intervals, baselines, and the papers' own rows to compare with."""
