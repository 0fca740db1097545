"""Training: what the judge and the policy share. Nothing here knows what is learnt.

run         a folder that says what was trained, on what, by which code; resumed by opening it again
record      what identifies a run, and how two of them differ, in words
model       the model to train: full or LoRA, text or vision, and the result that other tools open
encode      a conversation as tokens, and which of them are to be learnt
batches     examples to tensors, in an order that a resumed run repeats
sft         supervised training on TRL
watch       numbers to files, progress to the terminal, checkpoints that count only when they are whole
curves      the figure of a run
card        the model card
"""
