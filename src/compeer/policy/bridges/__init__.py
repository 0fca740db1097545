"""The policy's reward in other trainers. Nothing here imports TRL, and nothing else needs this package.

datasets  CER items as datasets of TRL, OpenAI and ShareGPT: `compeer cer export`
files     CER histories as rows that other trainers read; the reward of a configuration, also by COMPEER_REWARD
ms_swift  a reward plugin for ms-swift
verl      reward functions for verl, where the outputs of a group are brought together

docs/policy.md shows how they are used and what was tested.
"""
