"""The policy: supervised cold start, then GRPO with the judge's reward, reweighted against repetition.

redundancy  equations 5, 6 and 7
advantage   equations 2 and 3, in plain arithmetic
embedding   sentence vectors with a memory
parts       further parts of the reward
composite   the whole reward as one callable
prompts     CER histories as prompts
diversity   distinct n-grams and self-similarity
config      the settings of a GRPO run; layout: how a step lies on processes
grpo        the run itself: start, rows, arguments, trainer
watch       what each step was like; alerts in words; second_judge against over-optimisation
sft         the cold start on references with their reasoning
multi_turn  GRPO against a simulated seeker: seeker, emotion (its mood in numbers), talk, talk_reward
sweep       a run for each multiplier of tau: diversity against reward
bridges     the reward in ms-swift and verl
"""

from compeer.policy.redundancy import reweight, similarities, tau

__all__ = ["reweight", "similarities", "tau"]
