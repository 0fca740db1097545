"""The studio: one web app with four rooms, rendered on the server, with a little plain JavaScript.

settings   settings of one studio
access     who may do what: people, personal links, sessions, visits
gate       what is checked around every request; headers, rate limits, the log
pages      rooms, interface texts, whom to call, and the pages made of them
rooms      a package for each room: talk, label, arena, runs; and workplace, what label and arena share
app        the application: rooms, the pages that belong to none of them, the gate; running it

look/ holds colours, type, the frame of every page and the texts of the shell.

docs/studio.md says how to add a room.
"""
