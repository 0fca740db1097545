"""The policy's reward in other trainers. Nothing here imports TRL, and nothing here is needed by the rest.

reward_file   the reward of a GRPO configuration, named by a file or by COMPEER_REWARD
prompt_file   CER histories as rows that other trainers read
ms_swift      a reward plugin for ms-swift
verl          reward functions for verl, and the place where a group meets

docs/policy.md says how they are used, and what of it was tested.
"""
