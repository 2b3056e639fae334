import pytest
from hypothesis import settings

from aptset.kernels import backend

# Fixed examples: a red run can be repeated, and a green suite stays green.
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=150)
settings.load_profile("fixed")

COMPILED = backend.compiled


@pytest.fixture(params=["compiled", "numpy"])
def path(request, monkeypatch):
    """Run a test once on each path of the kernels."""
    if request.param == "numpy":
        monkeypatch.setattr(backend, "compiled", None)
    else:
        assert backend.compiled is not None, "the extension was not built: is there a C compiler?"
    return request.param
