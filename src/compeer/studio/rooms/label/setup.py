"""The coordinator's pages that set a project up: the guideline's text in versions, own questions, a preview.

What a coordinator writes is Markdown without HTML, pictures or links that run anything; it is rendered here and nowhere
else. The preview is the annotator's page with an item of the project: its answers go nowhere.
"""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt
from markupsafe import Markup


@cache
def _renderer() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).disable("image").enable("table")


@cache
def markdown(text: str) -> Markup:
    """Markdown as HTML. Tags in the text are shown as they are typed, and links only lead to pages.

    >>> print(markdown("**Only** the <b>reply</b>, see [x](javascript:alert(1))"), end="")
    <p><strong>Only</strong> the &lt;b&gt;reply&lt;/b&gt;, see [x](javascript:alert(1))</p>
    """
    return Markup(_renderer().render(text))
