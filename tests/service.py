"""A service that runs: the real application behind a real uvicorn, on a free port of this machine."""

import http.client
import json
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import uvicorn
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset.serve import Choice, Service, ServiceSettings, bind

NAMES = ["age", "height", "weight"]
LABELS = np.array(["ill", "well", "neither"])


def people(n, seed):
    """Make rows of which the label is hard to tell, so that sets differ."""
    generator = np.random.default_rng(seed)
    y = generator.integers(3, size=n)
    X = pd.DataFrame(generator.normal(size=(n, 3)) + 0.8 * np.eye(3)[y], columns=NAMES)
    return X, LABELS[y]


def fitted(model=None, seed=0, n=400, **settings):
    X, y = people(n, seed)
    passed = {name: settings.pop(name) for name in ("u", "ids") if name in settings}
    given = np.array(["north", "south"])[(X["age"] > 0).astype(int)] if settings.pop("by_region", False) else None
    classifier = aptset.ConformalClassifier(GaussianNB() if model is None else model, random_state=seed, **settings)
    return classifier.fit(X, y, groups=given, **passed)


def records(X):
    """Return rows as clients send them, missing values as null."""
    return [{name: None if value != value else value for name, value in row.items()} for row in X.to_dict("records")]


class Client:
    """One connection that is kept open."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    connection = None

    def __del__(self):
        if self.connection is not None:
            self.connection.close()

    def ask(self, path, content=None, headers=(), method=None):
        """Return the status, the headers and what the answer says."""
        is_json = content is not None and not isinstance(content, bytes)
        body = json.dumps(content).encode() if is_json else content
        given = {**({"content-type": "application/json"} if is_json else {}), **dict(headers)}
        self.connection.request(method or ("GET" if body is None else "POST"), path, body, given)
        answer = self.connection.getresponse()
        text, kind = answer.read().decode(), answer.headers.get("content-type", "")
        return answer.status, answer.headers, json.loads(text) if "json" in kind else text

    def get(self, path):
        return self.ask(path)[2]

    def sets(self, rows, **more):
        status, _, said = self.ask("/v1/sets", {"rows": rows, **more})
        assert status == 200, said
        return said["answers"]

    def tell(self, *pairs):
        content = {"feedback": [{"id": id_, "label": label} for id_, label in pairs]}
        status, _, said = self.ask("/v1/feedback", content)
        assert status == 200, said
        return said


class Running(Client):
    """A service in a thread of this process."""

    def __init__(self, folder, feedback, **settings):
        names = ("trust", "u", "alpha", "error", "assurance", "most_rows", "loader")
        choice = Choice(Path(folder), **{name: settings.pop(name) for name in names if name in settings})
        served = Service(ServiceSettings(choice, Path(feedback), **{"watch": 0, **settings}))
        self.service = served.worker
        bound = bind("127.0.0.1", 0)
        self.port = bound.getsockname()[1]
        config = uvicorn.Config(served.application(), log_level="error", lifespan="on", timeout_keep_alive=60)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [bound]})
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        super().__init__(self.port)

    def stop(self):
        self.connection.close()
        self.server.should_exit = True
        self.thread.join()
