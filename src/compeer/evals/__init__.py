"""Evaluation of a supporter: ESC-Eval and SAGE (Tables 2 and 3), language, control, safety, and one report.

esc_eval          five rounds with a role-playing seeker, seven dimensions rated by judges
sage              a seeker whose mood rises and falls with every reply
language          how varied, how long, how repetitive replies are, and how near to people's
control           whether pinned labels are kept, and whether the reply does what the reasoning says
strategy_readers  a classifier and a judge that name the strategy of a reply
safety            a red-team set: the screening, and a model's replies
report            all of it side by side on one page
result            the files that every evaluation writes and the report reads
released          published results recomputed: SAGE's log, ESC-Eval's score files
roles             supporter, seeker and judges with their prompts; our models behind Inspect's interface
tasks             the tasks for Inspect's own commands
launch            a run with a journal that can be interrupted and continued
"""
