"""The studio: one web app with rooms, server-rendered, with a little plain JavaScript.

settings    what an instance is told
access      who may do what; the gate around every request
words       the interface in English and Chinese
look        colours, type, the frame of every page
pages       templates, words and static files made into pages
front       home, entering, leaving, theme and language
room        what a room is, and a part that several rooms share
rooms       a package for each: talk, label, arena, runs; and workplace, what label and arena share
app, serve  the application, and running it

Adding a room is one package and one line:

1.  src/compeer/studio/rooms/talk/__init__.py with

        def open_room(settings: Settings) -> Room:
            return Room(
                name="talk",                            # its pages lie under /talk
                package=sys.modules[__name__],
                words=WORDS,                            # talk.name, talk.about, talk.off and what its pages say
                router=routes(settings) if settings.models else None,    # None: closed here, and talk.off says why
                roles=("coordinator", "annotator", "guest"),
            )

    and beside it words.py (a dict of Text(en, zh)), routes.py (an APIRouter, paths relative to /talk; the first page
    is ""), templates/*.html (used as "talk/page.html", extending "base.html"), static/* (asset("talk/page.js")).
2.  Its module in ROOMS of rooms/__init__.py, which is also the order in the navigation.

The first page appears in the navigation and on the home page. What a room gets for free: the person
(`access.person(request)`), its roles checked, forms checked (put `{{ forms.token(visit) }}` in each form; a script
sends the `csrf` of the page in the header X-CSRF-Token, which `post` of /static/look/studio.js does), headers, rate
limits, the log, friendly errors (raise `access.Refused`). Personal links of its own people: `tokens=` of the Room.
Pictures of items: `access.pictures.picture`. No script and no style may stand in a page itself, the browser would
refuse it: files in static/, values in data- attributes.
"""
