"""What every piece of work needs, sent once; and whether work goes to other machines."""

from __future__ import annotations

from typing import Generic, TypeVar

from joblib.parallel import get_active_backend

Value = TypeVar("Value")


class Shared(Generic[Value]):
    """A value that goes to a cluster once, and not with every task.

    joblib's dask backend scatters those arguments that say that they are large; what they hold, it does not ask.
    """

    def __init__(self, value: Value) -> None:
        self.value = value

    def __sizeof__(self) -> int:
        return 2**20


def is_on_cluster() -> bool:
    """Tell whether ``joblib.parallel_config`` names a backend such as "dask", which gives results as they come."""
    backend, _ = get_active_backend()
    is_local = type(backend).__module__ == "joblib._parallel_backends"
    return not is_local and bool(getattr(backend, "supports_return_generator", False))
