"""The policy: a supervised cold start, then GRPO with the judge's reward, reweighted against repetition.

redundancy         equations 5, 6 and 7
advantage          equations 2 and 3 in plain arithmetic
diversity          distinct n-grams, self-similarity, labels in use, novelty
composite          the whole reward as one callable
prompts            CER histories as prompts and as rows for a trainer
sft                the cold start on references with their reasoning
seeker             a simulated seeker and how its mood moves
multi_turn         GRPO over whole conversations with a seeker
llamacpp_rollouts  outputs by llama.cpp where there is no GPU
trl_internals      every use of a name of TRL that is not public, with its reason

grpo               the GRPO run: settings, trainer, what is watched
bridges            the reward in ms-swift and verl
"""

from compeer.policy.redundancy import reweight, similarities, tau

__all__ = ["reweight", "similarities", "tau"]
