"""Services that run, of one classifier."""

import pytest

pytest.importorskip("starlette", reason="the extra 'serve' is not installed")

from sklearn.linear_model import LogisticRegression

from service import Running, fitted


@pytest.fixture(scope="session")
def classifier():
    return fitted(LogisticRegression())


@pytest.fixture(scope="session")
def folder(classifier, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "people"
    classifier.save(path)
    return path


@pytest.fixture
def serve(folder, tmp_path):
    """Start services, which are stopped at the end."""
    started = []

    def start(path=folder, feedback=tmp_path / "feedback.sqlite", **settings):
        started.append(Running(path, feedback, **settings))
        return started[-1]

    yield start
    for one in started:
        one.stop()
