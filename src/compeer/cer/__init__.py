"""The CER dataset: controllable empathetic reasoning, labelled (the paper's Figure 2).

item            one moment, two replies, the reasoning behind one of them, the labels; read_items, the reader of items
filter          what goes in: cheap checks, a model's verdict, and what was dropped
duplicates      exact and near-duplicates among dialogues
sample          equation 1: which rounds
reason          candidates from one or several models
silver          labels without annotators
gold            our own labelled set
exchange        tasks for people, and their votes back
personas        how two people talk, described and clustered
rewrite         the same in another person's voice; the training sets -D, -R and -P
split           train, valid and test without leakage
publish         the dataset folder and its card
build           the whole chain from a configuration
prompts         what the stages ask models (prompts.yaml)
"""
