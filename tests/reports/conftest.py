"""A real browser for the tests of the page."""

import pytest


class Opened:
    """A page, and everything it complained about or asked for."""

    def __init__(self, browser, path, **options):
        self.context = browser.new_context(accept_downloads=True, **options)
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]", state="attached", timeout=30_000)

    def type_alpha(self, alpha):
        self.page.fill("#alpha-number", repr(alpha))
        self.page.press("#alpha-number", "Enter")
        return self.settled(repr(alpha))

    def slide(self, alpha):
        self.page.fill("#alpha", repr(alpha))
        return self.settled(repr(alpha))

    def settled(self, alpha):
        self.page.wait_for_function(
            "alpha => Number(document.documentElement.dataset.alpha) === Number(alpha)", arg=alpha
        )
        return float(self.page.evaluate("document.documentElement.dataset.alpha"))

    def tiles(self):
        """Return every key number with its interval."""
        found = self.page.eval_on_selector_all(".tile", "tiles => tiles.map(t => ({...t.dataset}))")
        return {tile["name"]: tuple(map(number, (tile["value"], tile["low"], tile["high"]))) for tile in found}

    def table(self, name):
        """Return the table by label or by group, from name to its numbers, in the order shown."""
        rows = self.page.eval_on_selector_all(f"#{name}-table tbody tr", "rows => rows.map(r => ({...r.dataset}))")
        return {row.pop("name"): {key: number(value) for key, value in row.items()} for row in rows}

    def sizes(self):
        """Return the histogram: from each size to the number of rows and of covered rows."""
        bars = self.page.eval_on_selector_all("#sizes [data-size]", "bars => bars.map(b => ({...b.dataset}))")
        return {int(bar["size"]): (int(bar["rows"]), int(bar["covered"])) for bar in bars}

    def rows(self):
        """Return the rows that are shown: number, size, whether it is covered, and the labels in the set."""
        take = """rows => rows.map(row => ({
            ...row.dataset, labels: [...row.querySelectorAll('.label.in .name')].map(name => name.textContent)}))"""
        return self.page.eval_on_selector_all("#examples .row", take)

    def download(self, selector):
        """Click and return the text of the file that comes (chromium stops at ten files from one page)."""
        with self.page.expect_download() as waiting:
            self.page.click(selector)
        return waiting.value.path().read_bytes().decode()

    def clipped(self):
        """Return the texts of figures that reach beyond their figure."""
        take = """texts => texts.filter(text => {
            const own = text.getBoundingClientRect(), around = text.closest("svg").getBoundingClientRect();
            return own.left < around.left - 1 || own.right > around.right + 1;
        }).map(text => text.textContent)"""
        return self.page.eval_on_selector_all("figure svg text", take)

    def overflow(self):
        """Return by how many pixels the page is wider than its window."""
        return self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def number(text):
    return float(text.replace("Infinity", "inf"))


@pytest.fixture
def opened(browser):
    """Open pages; they are closed at the end, and must not have complained or asked for anything."""
    pages = []

    def open_page(path, **options):
        pages.append(Opened(browser, path, **options))
        return pages[-1]

    yield open_page
    for one in pages:
        one.context.close()
        assert one.complaints == []
        assert all(url.split(":")[0] in ("file", "blob", "data") for url in one.requests)
        assert sum(url.startswith("file:") for url in one.requests) == 1, "the page itself, and nothing else"
