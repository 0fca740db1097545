"""The studio: one web app with four rooms, rendered on the server, with a little plain JavaScript.

settings   settings of one studio
access     who may do what; the gate around every request
words      interface texts in English and Chinese, read from data files
helplines  whom to call, for every page
room       what a room is, and a part that several rooms share
pages      templates, texts and static files made into pages
rooms      a package for each room: talk, label, arena, runs; and workplace, what label and arena share
app        the application: rooms, the pages that belong to none of them, the gate
serve      running it

look/ holds colours, type, the frame of every page and the texts of the shell.

docs/studio.md says how to add a room.
"""
