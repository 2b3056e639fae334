"""The page that shows the monitor, in a real browser: live, without complaints, and on a phone."""

import pytest

from service import people, records


@pytest.fixture
def opened(browser):
    """Open pages; they are closed at the end, and must not have complained or asked anybody else."""
    pages = []

    def open_page(port, path="/", allowed=0, **options):
        context = browser.new_context(**options)
        page = context.new_page()
        complaints, requests = [], []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(f"http://127.0.0.1:{port}{path}")
        pages.append((context, complaints, requests, port, allowed))
        return page

    yield open_page
    for context, complaints, requests, port, allowed in pages:
        context.close()
        assert len(complaints) <= allowed, complaints
        assert all(url.startswith(f"http://127.0.0.1:{port}/") or url == "data:," for url in requests)


def tiles(page, title):
    take = "tiles => Object.fromEntries(tiles.map(tile => [tile.dataset.name, tile.dataset.value]))"
    return page.eval_on_selector_all(f"section[data-monitor='{title}'] .tile", take)


@pytest.mark.parametrize("options", [{}, {"color_scheme": "dark", "viewport": {"width": 360, "height": 740}}])
def test_the_page_follows_the_monitor(serve, opened, options):
    client, (X, y) = serve(mature=None, error=0.4), people(200, 1)
    page = opened(client.port, **options)
    page.wait_for_selector("html[data-labels='0']", state="attached")
    assert "No row yet." in page.inner_text("section[data-monitor='Coverage']")
    client.sets(records(X), ids=list(range(200)))
    client.tell(*enumerate(y[:150].tolist()))
    page.wait_for_selector("html[data-labels='150']", state="attached")  # without a word from us
    state = client.get("/v1/monitor")
    shown = tiles(page, "Coverage")
    assert shown["judged"] == "150"
    assert shown["coverage"] == f"{100 * state['coverage']['share']:.1f}\u00a0%"
    assert tiles(page, "Rows acted on")["judged"] == str(state["error"]["rows"])
    assert state["coverage"]["sentence"] in page.inner_text("main")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    path = page.eval_on_selector("section .path", "path => path.getAttribute('d')")
    assert len(path.split("L")) == 151, "the start, and every row"


def test_an_alarm_is_seen_and_a_token_is_asked_for(serve, opened, tmp_path):
    (tmp_path / "token").write_text("a secret of enough letters")
    client, (X, _) = serve(mature=None, token_file=tmp_path / "token"), people(300, 2)
    allowed = {"authorization": "Bearer a secret of enough letters"}
    said = client.ask("/v1/sets", {"rows": records(X)}, allowed)[2]["answers"]
    labels = [next(iter({"ill", "well", "neither", "<b>new</b>"} - set(one["set"]))) for one in said]
    feedback = [{"id": one["id"], "label": label} for one, label in zip(said, labels, strict=True)]
    assert client.ask("/v1/feedback", {"feedback": feedback}, allowed)[0] == 200
    page = opened(client.port, allowed=1)  # the browser notes the answer 401
    page.wait_for_selector("#token:not([hidden])")
    page.fill("#token input", "a secret of enough letters")
    page.click("#token button")
    page.wait_for_selector("section .verdict.alarm")
    assert "ALARM" in page.inner_text("section .verdict.alarm")
    assert page.is_hidden("#token")
