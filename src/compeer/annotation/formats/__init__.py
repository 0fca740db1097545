"""Tasks for teams that already run another tool, and their answers back.

blind           which reply comes first, and the name a task has outside
label_studio    a JSON file of tasks with a labelling configuration
potato          a project folder with its configuration
"""
