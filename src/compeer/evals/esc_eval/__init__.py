"""ESC-Eval: five rounds with a role-playing seeker, then seven dimensions judged from 0 to 4.

card        the people played, in both languages
parse       a number out of a judge's reply: properly, and by the official rule
dialogue    the five rounds, and the judges
figures     the seven columns and their average, by language and judge
scores      the same from official score files
"""
