"""Measuring judges: Table 1 with intervals, and what is behind its figures.

folder      what was asked is kept; asking judges into a folder
measure     one judge on one set: figures with intervals, position of the reply
baselines   always True, majority, and a linear probe over sentence embeddings
signatures  failure signatures in words
report      sections, differences, judges against sets; Markdown, JSON
"""
