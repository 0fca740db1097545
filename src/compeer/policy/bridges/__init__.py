"""The policy's reward in other trainers. Nothing here imports TRL, and nothing else needs this package.

datasets     CER items as datasets of TRL, OpenAI and ShareGPT: `compeer cer export`
environment  what the others share: the reward of a configuration, prompts, the seeker; where a group meets
ms_swift     a reward plugin for ms-swift
server       the environment over HTTP: sessions of OpenEnv, the remote reward of OpenRLHF
trl          a class for TRL's `environment_factory`, a client of that server
verifiers    an environment of verifiers
verl         reward functions for verl, where the outputs of a group are brought together

docs/policy.md and docs/environments.md show how they are used and what was tested.
"""
