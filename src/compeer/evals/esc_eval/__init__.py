"""ESC-Eval (Zhao et al. 2024): five rounds with a role-playing seeker, then seven dimensions rated from 0 to 4.

evaluate  role cards, the dialogue, the judges, the Inspect task, a whole run
ratings   a number from a judge's reply, the seven columns, official score files
"""
