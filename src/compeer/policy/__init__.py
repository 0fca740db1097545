"""The policy. So far the redundancy of replies, which reweights their reward.

redundancy  equations 5, 6 and 7
"""

from compeer.policy.redundancy import reweight, similarities, tau

__all__ = ["reweight", "similarities", "tau"]
