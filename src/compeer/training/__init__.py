"""Training: what the judge and the policy share. Nothing here knows what is learnt.

run      a folder that records what was trained, on what, by which code; opening it again resumes it
model    the model to train: full or LoRA, text or vision, and the result that other tools open
encode   conversations as tokens, which of them are learnt, and batches in an order that a resumed run repeats
sft      supervised training on TRL
metrics  metrics.jsonl as columns, also while it is written
watch    metrics to files, progress to the terminal, whole checkpoints, curves, a guard against NaN gradients
card     the model card
"""
