"""Silver labels: CER items from corpora that people have labelled, without any model.

build           build_silver: dialogues in, items out
moment, stages  what is known about a round: what was said before it, and what people noted
own_words, evidence, phrases, english_*, chinese, feelings, compose     the reasoning, in the conversation's words
unlikely, swap, wrong_steps     what is wrong, and wrong in a way that the text alone does not show
retrieve, reworded, fitting, replies     the candidate's reply and the preference
leakage         how much the text alone tells: the check that it does not
"""

from compeer.cer.silver.build import Leakage, build_silver, text_only

__all__ = ["Leakage", "build_silver", "text_only"]
