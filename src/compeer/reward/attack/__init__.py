"""Attacks on the judge: outputs made to earn a reward without deserving one, and how far each of them gets.

wordings    what is said to the judge, in both languages
attacks     an honest output turned into an attack
study       asking a judge about both, and what came of it
result      the measure and the threshold a judge must keep
table       Markdown and the figure
"""

from compeer.reward.attack.attacks import ATTACKS, Attack, attacked, honest
from compeer.reward.attack.result import THRESHOLD, AttackReport, Tried, measured
from compeer.reward.attack.study import attack

__all__ = ["ATTACKS", "THRESHOLD", "Attack", "AttackReport", "Tried", "attack", "attacked", "honest", "measured"]
