"""One tracking store on disk for the tests of MLflow: to make its tables takes seconds."""

import pytest


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/runs.db"
