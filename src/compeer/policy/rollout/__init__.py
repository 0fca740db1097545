"""Outputs for GRPO where there is no GPU: llama.cpp with the adapter of the step, through TRL's `rollout_func`.

llamacpp    the rollouts
server      llama.cpp with an adapter, tokens in and tokens out
many        answers to many prompts on a CPU, beside training
scoring     prompts read once for a group, in training too
correction  importance sampling for what rounding changes
"""
