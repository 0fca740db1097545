"""Scoring a file of items: `score` (resumable, in order) and its summary, `tally`."""
