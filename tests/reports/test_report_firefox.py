"""Debian's Firefox opens the page, too: asked through its own remote protocol, WebDriver BiDi."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest
from test_report_accessible import table_report
from tornado.websocket import websocket_connect

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
LONGEST = 180  # seconds, on a machine that has much else to do

pytestmark = pytest.mark.skipif(
    FIREFOX is None, reason="Firefox is missing, so it does not open the page: apt-get install firefox-esr"
)

STATE = """new Promise(done => {
  const look = () => document.documentElement.dataset.ready ? done(JSON.stringify({
      headline: document.getElementById("headline").textContent,
      coverage: document.getElementById("live-coverage").textContent,
      figures: document.querySelectorAll("figure svg").length,
      tiles: document.querySelectorAll(".tile").length,
      overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  })) : setTimeout(look, 50);
  look();
})"""
SLIDE = """(() => {
  const input = document.getElementById("alpha-number");
  input.value = "0.3";
  input.dispatchEvent(new Event("change"));
})()"""
MOVED = """new Promise(done => {
  const look = () => document.documentElement.dataset.alpha === "0.3" ? done("moved") : setTimeout(look, 50);
  look();
})"""


@asynccontextmanager
async def firefox(folder):
    """Start Firefox with a profile of its own, and give a function that asks it."""
    (folder / "profile").mkdir()
    log = folder / "firefox.log"
    command = [FIREFOX, "--headless", "--no-remote", "--profile", folder / "profile", "--remote-debugging-port", "0"]
    with log.open("w") as stderr:
        process = subprocess.Popen(
            command, stdout=stderr, stderr=stderr, env={**os.environ, "HOME": str(folder)}, start_new_session=True
        )
    socket = None
    try:
        until = time.monotonic() + LONGEST
        while not (found := re.search(r"WebDriver BiDi listening on (ws://\S+)", log.read_text(errors="replace"))):
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < until, "Firefox did not start"
            await asyncio.sleep(0.1)
        socket = await websocket_connect(f"{found[1]}/session")
        complaints, number = [], iter(range(1, 1000))

        async def ask(method, **parameters):
            identity = next(number)
            await socket.write_message(json.dumps({"id": identity, "method": method, "params": parameters}))
            while True:
                told = json.loads(await asyncio.wait_for(socket.read_message(), LONGEST))
                if told.get("method") == "log.entryAdded":
                    complaints.append(told["params"]["text"])
                if told.get("id") == identity:
                    assert told["type"] == "success", told
                    return told["result"]

        yield ask, complaints
    finally:
        if socket is not None:
            socket.close()
        process.kill()
        process.wait()
        while socket is not None and await socket.read_message() is not None:
            pass  # until it says that nobody is there any more


async def look(folder, path):
    async with firefox(folder) as (ask, complaints):
        await ask("session.new", capabilities={})
        await ask("session.subscribe", events=["log.entryAdded"])
        context = (await ask("browsingContext.getTree"))["contexts"][0]["context"]

        async def value_of(expression):
            asked = {"expression": expression, "target": {"context": context}, "awaitPromise": True}
            return (await ask("script.evaluate", **asked))["result"].get("value")

        states = []
        for width in (360, 1280):
            await ask("browsingContext.setViewport", context=context, viewport={"width": width, "height": 800})
            await ask("browsingContext.navigate", context=context, url=path.as_uri(), wait="complete")
            states.append(json.loads(await value_of(STATE)))
        await value_of(SLIDE)
        assert await value_of(MOVED) == "moved"
        return [*states, json.loads(await value_of(STATE))], complaints


def test_firefox_opens_the_page(tmp_path):
    made = table_report(tmp_path / "r.html")
    with ThreadPoolExecutor(1) as pool:  # a thread of its own: other tests of browsers leave a loop running in this one
        (phone, desk, moved), complaints = pool.submit(
            lambda: asyncio.run(look(tmp_path, tmp_path / "r.html"))
        ).result()
    assert complaints == []
    for state in (phone, desk):
        assert state["headline"] == "Too few rows to contradict 90 %"
        assert state["coverage"] == f"{100 * float(made.evaluation.coverage):.4g} %"
        assert (state["figures"], state["overflow"]) == (6, 0)
        assert state["tiles"] > 3
    assert moved["coverage"] != desk["coverage"]
