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

To add a room:

1.  Write src/compeer/studio/rooms/NAME/__init__.py with

        def open_room(settings: StudioSettings) -> Room:
            return Room(
                name="talk",  # its pages are under /talk
                folder=Path(__file__).parent,
                router=routes(settings) if settings.models else None,  # None: closed here, and talk.off says why
                roles=("coordinator", "annotator", "guest"),
            )

    and beside it words.json (talk.name, talk.about, talk.off and the texts of its pages), routes.py (an APIRouter,
    paths relative to /talk; the first page is ""), templates/*.html (used as "talk/page.html", extending "base.html")
    and static/* (asset("talk/page.js")).
2.  Add its module to ROOMS in rooms/__init__.py, which is also the order of the navigation.

Every room has: the person (`access.person(request)`), its roles checked, forms checked (put `{{ forms.token(visit) }}`
into each form; a script sends the page's `csrf` in the header X-CSRF-Token, as `post` of /static/look/studio.js does),
headers, rate limits, the log, pages that explain errors (raise `access.RequestRefused`). Personal links of its own:
`links=` of the Room. No script and no style may stand in a page itself, because the browser refuses them: use files in
static/ and values in data- attributes.
"""
