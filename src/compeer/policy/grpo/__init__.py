"""`compeer policy grpo`.

config        settings and the paper's variants
layout        whole groups in every batch, or a refusal with the arithmetic
start         the model to start from
rows          prompts and the held-out set
arguments     TRL's settings
trainer       TRL's trainer with our order of prompts
run           a whole training
watch         what is measured every step; `alerts` when it goes wrong
second_judge  a judge the policy is not trained on
"""
