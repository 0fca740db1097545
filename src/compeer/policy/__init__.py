"""The policy: supervised cold start, then GRPO with the judge's reward, reweighted against repetition.

redundancy  equations 5, 6 and 7
advantage   equations 2 and 3, in plain arithmetic
embedding   sentence vectors with a memory
parts       further parts of the reward
composite   the whole reward as one callable
prompts     CER histories as prompts
diversity   distinct n-grams and self-similarity
sft         the cold start on references with their reasoning
sweep       a run for each multiplier of tau: diversity against reward

grpo/       the training itself, watched, with a second judge
rollout/    outputs by llama.cpp where there is no GPU
talk/       GRPO against a simulated seeker
bridges/    the reward in ms-swift and verl
"""

from compeer.policy.redundancy import reweight, similarities, tau

__all__ = ["reweight", "similarities", "tau"]
