"""The policy's reward in other trainers. Nothing here imports TRL, and nothing else needs this package.

datasets     CER items as datasets of TRL, OpenAI and ShareGPT: `compeer cer export`
environment  prompts, the seeker and the reward of a group, behind every environment; where a group meets
files        CER histories as rows that other trainers read; the reward of a configuration, also by COMPEER_REWARD
ms_swift     a reward plugin for ms-swift
server       the environment over HTTP: sessions of OpenEnv, the remote reward of OpenRLHF
trl          a class for TRL's `environment_factory`, a client of that server
verifiers    an environment of verifiers
verl         reward functions for verl, where the outputs of a group are brought together

docs/policy.md and docs/environments.md show how they are used and what was tested.
"""
