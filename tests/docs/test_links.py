"""Links between pages, to files and to pictures lead somewhere, and every page can be found from the index."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.pages import PAGES, ROOT, anchors, links


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for words, target in links(page.read_text(encoding="utf-8")):
        if target.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, place = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or ROOT not in (file, *file.parents):
            wrong.append(f"[{words}]({target}): there is no such file")
        elif place and place not in anchors(file.read_text(encoding="utf-8")):
            wrong.append(f"[{words}]({target}): {file.name} has no such heading")
    assert not wrong, f"{page.relative_to(ROOT)}: " + "; ".join(wrong)


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    named = {target.partition("#")[0] for _, target in links(index.read_text(encoding="utf-8"))}
    missing = {page.name for page in index.parent.glob("*.md")} - named - {index.name}
    assert not missing, f"docs/README.md does not mention {', '.join(sorted(missing))}"
