"""`compeer policy grpo`.

config     settings, and the paper's variants of the reward
arguments  the layout of a step, the model to start from, the rollout program, TRL's settings
trainer    TRL's trainer with its own order of prompts, and its callbacks
run        a whole training
watch      what is measured in every step
alerts     warnings in words: collapse, gamed rewards, a second judge that disagrees
"""
