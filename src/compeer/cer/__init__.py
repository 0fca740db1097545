"""The CER dataset: controllable empathetic reasoning, labelled (the paper's Figure 2).

item            one moment, two replies, the reasoning behind one of them, the labels
stage, runner, work, ledger, manifest, progress, ray_engine     a stage is a function; these run it over a file
checks, near_duplicates, filter, filter_report, crisis_flag     what goes in
sample          equation 1: which rounds
reason          candidates from one or several models
silver          labels without annotators; gold, our own labelled set
exchange        tasks for people, and their votes back
personas, clusters, rewrite, variants     the same in another person's voice; -D, -R, -P
split, publish, card     what comes out
build           the chain from a configuration
"""
