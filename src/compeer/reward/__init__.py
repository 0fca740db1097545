"""UnifiReward: one judge for the reasoning and the reply. So far the arithmetic of its reward.

scoring     verdicts to a number from -5 to 5
"""

from compeer.reward.scoring import total

__all__ = ["total"]
