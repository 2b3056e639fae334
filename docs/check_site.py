"""Checks the built site: nothing comes from elsewhere, links lead somewhere, the gallery is whole, searches find pages.

``python docs/check_site.py docs/_build/html`` prints what it looked at, or what is wrong, and then ends with status 1.
Links to other sites cannot be followed without a network: they are counted, and must be https.
"""

import json
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

REPOSITORY = Path(__file__).resolve().parent.parent
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data", "video": "src"}
FETCHED_LINKS = {"stylesheet", "preload", "icon", "prefetch", "modulepreload", "preconnect", "dns-prefetch"}
MARKDOWN_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
GALLERY_SIZE = 12
# What people type into the search, and the page that answers it: one of the first two results.
SEARCHES = {
    "mondrian": "howto/groups",
    "class-conditional": "howto/groups",
    "class imbalance": "howto/rare-labels",
    "FastAPI": "howto/service",
    "MLflow": "howto/service",
    "prefit": "start/scikit-learn",
    "RAPS": "choosing",
    "APS": "explain/method",
    "distribution shift": "howto/drift",
    "covariate shift": "howto/shift",
    "label shift": "howto/shift",
    "nonconformity": "explain/method",
    "exchangeable": "explain/guarantee",
    "empty sets": "start/ten-minutes",
    "adaptive conformal inference": "howto/online",
    "GridSearchCV": "howto/pipelines",
    "MAPIE": "howto/coming_from",
    "crepes": "howto/coming_from",
    "TorchCP": "howto/coming_from",
    "puncc": "howto/coming_from",
    "nonconformist": "howto/coming_from",
    "jackknife": "howto/few-data",
    "XGBoost": "howto/boosting",
    "PyTorch": "start/torch",
    "Spark": "scale",
    "p-values": "explain/p-values",
    "out-of-distribution": "gallery/shift/plot_strange_rows",
    "PAC": "howto/assurance",
    "patients": "howto/clusters",
    "annotators": "howto/annotators",
    "selective classification": "howto/decide",
    "ordinal": "howto/ordered-labels",
}


class Page(HTMLParser):
    """The ids of a page, its links, and what a browser fetches to show it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.ids, self.links, self.fetched = path, set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag says."""
        known = {name: value or "" for name, value in attrs}
        self.ids |= {known[name] for name in ("id", "name") if name in known}
        if tag == "a" and "href" in known:
            self.links.append(known["href"])
        if tag in FETCHED and known.get(FETCHED[tag]):
            self.fetched.append(known[FETCHED[tag]])
        if tag == "link" and FETCHED_LINKS & set(known.get("rel", "").split()):
            self.fetched.append(known["href"])


def from_elsewhere(pages: list[Page], folder: Path) -> list[str]:
    """Return what pages or style sheets fetch from other places, and what they miss."""
    wrong = []
    for page in pages:
        for address in page.fetched:
            parts = urlsplit(address)
            if parts.netloc or parts.scheme not in ("", "data"):
                wrong.append(f"{page.path}: fetches {address}")
            elif not parts.scheme and not (page.path.parent / unquote(parts.path)).exists():
                wrong.append(f"{page.path}: lacks {address}")
    for sheet in folder.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8", errors="replace")
        found = re.findall(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)", text)
        wrong += [f"{sheet}: fetches {address}" for address in found]
    return wrong


def dead_links(pages: list[Page]) -> tuple[list[str], int]:
    """Return links that lead nowhere, and how many lead to other sites."""
    by_path, wrong, outside = {page.path.resolve(): page for page in pages}, [], 0
    for page in pages:
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                outside += 1
                wrong += [] if parts.scheme in ("https", "mailto") else [f"{page.path}: {link} is not https"]
                continue
            target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path.resolve()
            if not target.exists():
                wrong.append(f"{page.path}: {link} leads nowhere")
            elif parts.fragment and target in by_path and unquote(parts.fragment) not in by_path[target].ids:
                wrong.append(f"{page.path}: {link} has no such anchor")
    return wrong, outside


def dead_links_of_the_repository() -> list[str]:
    """Return links of the Markdown files beside the site that lead nowhere."""
    return [
        f"{path.name}: {link} leads nowhere"
        for path in REPOSITORY.glob("*.md")
        for link in MARKDOWN_LINK.findall(path.read_text(encoding="utf-8"))
        if not (REPOSITORY / unquote(link)).exists()
    ]


def incomplete_gallery(folder: Path) -> list[str]:
    """Return examples without a figure or a notebook; say so if there are too few."""
    pages = sorted((folder / "gallery").glob("*/plot_*.html"))
    wrong = [f"the gallery has {len(pages)} examples, fewer than {GALLERY_SIZE}"] if len(pages) < GALLERY_SIZE else []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        wrong += [] if f"sphx_glr_{page.stem}_001" in text else [f"{page}: no figure"]
        wrong += [] if f"{page.stem}.ipynb" in text else [f"{page}: no notebook"]
    return wrong


def ranked(index: dict[str, Any], words: str) -> list[str]:
    """Return the pages that a search finds, best first, by the scores of Sphinx's searchtools.js.

    A title or a main entry of the index counts by the share of it that was typed, names of objects 16, words of
    headings 15 and words of the text 5.
    """
    scores: dict[int, float] = {}
    query = words.lower()
    hits = [*_typed(index, query)]
    hits += [(page, 16) for several in index["objects"].values() for page, *_, name in several if name.lower() == query]
    for best, terms in ((15, index["titleterms"]), (5, index["terms"])):
        pages = [_pages_with(word, terms) for word in re.findall(r"\w+", query)]
        hits += [(page, best) for page in set.intersection(*pages)]
    for page, score in hits:
        scores[page] = max(score, scores.get(page, score))
    return [index["docnames"][page] for page in sorted(scores, key=lambda page: (-scores[page], index["titles"][page]))]


def _typed(index: dict[str, Any], query: str) -> Iterator[tuple[int, float]]:
    """Yield pages with a heading or a main entry of the index of which at least half was typed, and their scores."""
    for best, table in ((15, index["alltitles"]), (100, index["indexentries"])):
        for text, places in table.items():
            if query in text.lower() and 2 * len(query) >= len(text):
                for page, _anchor, *is_main in places:
                    if best == 15 or any(is_main):
                        yield page, best * len(query) / len(text)


def _pages_with(word: str, terms: dict[str, Any]) -> set[int]:
    """Return the pages that have a word; its stem is at least half of it."""
    stems = [terms[stem] for stem in terms if word.startswith(stem) and 2 * len(stem) >= len(word)]
    return {page for pages in stems for page in ([pages] if isinstance(pages, int) else pages)}


def failed_searches(folder: Path, searches: dict[str, str] = SEARCHES) -> list[str]:
    """Return searches whose page is not among the first two results."""
    path = folder / "searchindex.js"
    if not path.exists():
        return ["there is no index to search in"]
    index = json.loads(re.fullmatch(r"Search\.setIndex\((.*)\)", path.read_text(encoding="utf-8"), re.DOTALL)[1])
    results = {words: ranked(index, words)[:2] for words in searches}
    return [
        f"a search for {words!r} does not lead to {page}, but to {' and '.join(results[words]) or 'nothing'}"
        for words, page in searches.items()
        if page not in results[words]
    ]


def main(folder: Path) -> None:
    """Check a built site."""
    paths = (
        path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts
    )  # a theme keeps templates there
    pages = [Page(path) for path in paths]
    wrong, outside = dead_links(pages)
    wrong += from_elsewhere(pages, folder) + dead_links_of_the_repository() + incomplete_gallery(folder)
    wrong += failed_searches(folder)
    print(*wrong, sep="\n")
    links = sum(len(page.links) for page in pages)
    print(f"{len(pages)} pages, {links} links, {outside} of them to other sites (not followed), {len(wrong)} wrong")
    raise SystemExit(1 if wrong or not pages else 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
