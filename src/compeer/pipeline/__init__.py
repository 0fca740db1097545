"""The stage runner: a function over the rows of a file, with everything around it that a long run needs.

stage           a stage and its tools; prompts and costs before a run, progress during it
work            rows in, results out, in order, by a bounded number of workers; answers from the cache
ledger          the files of a run, its fingerprint, and how it goes on after it was killed
runner          run_stage: all of it together, on this machine or on a Ray cluster
"""
