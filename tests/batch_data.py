"""Tables of probabilities and labels, in every form that batches have."""

import numpy as np
import pyarrow as pa

NAMES = ["ant", "bee", "cat", "dog"]


def rows(n=400, seed=0, n_classes=4, dtype=np.float64, digits=None):
    """Probabilities and the class number of each label; with few digits many rows are copies."""
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(n_classes, 0.5), size=n)
    y = (generator.random((n, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    if digits is not None:
        p = p.round(digits)
        p[:, 0] = 1 - p[:, 1:].sum(axis=1)
        p = np.maximum(p, 0)
        p /= p.sum(axis=1, keepdims=True)
    return p.astype(dtype), y


def table(p, y, form="columns", names=NAMES, **others):
    """A table with the probabilities as columns, lists, large lists or lists of fixed size."""
    flat = pa.array(p.ravel())
    starts = np.arange(0, p.size + 1, p.shape[1])
    made = {
        "columns": lambda: {f"p_{name}": pa.array(p[:, k]) for k, name in enumerate(names)},
        "list": lambda: {"p": pa.ListArray.from_arrays(pa.array(starts, pa.int32()), flat)},
        "large_list": lambda: {"p": pa.LargeListArray.from_arrays(pa.array(starts, pa.int64()), flat)},
        "fixed": lambda: {"p": pa.FixedSizeListArray.from_arrays(flat, p.shape[1])},
    }[form]()
    return pa.table({"row": np.arange(len(p)), **made, "y": pa.array([names[k] for k in y]), **others})


def columns_of(form, names=NAMES):
    """How such a table is described to the functions."""
    return {"prefix": "p_"} if form == "columns" else {"probabilities": "p"}


def classes_of(form, names=NAMES):
    """What calibration must be told about the classes."""
    return {} if form == "columns" else {"classes": names}


class Capsule:
    """What only has ``__arrow_c_stream__``, as frames of any library may."""

    def __init__(self, content):
        self._content = content

    def __arrow_c_stream__(self, requested_schema=None):
        return self._content.__arrow_c_stream__(requested_schema)


def sets_in(made, column="set"):
    return made[column].to_pylist()


def lists_of(sets):
    return [labels.tolist() for labels in sets]
