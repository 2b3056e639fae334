"""Ugly rows of probabilities: ties, zeros, one-hot, dust, any float dtype."""

import numpy as np
from hypothesis import strategies as st

_ENTRIES = st.one_of(
    st.integers(0, 4).map(float),
    st.floats(0, 1, allow_subnormal=False),
    st.sampled_from([0.0, -0.0, 1e-17, 1e-17, 1e-30, 2.0**-52, 2.0**-51, 3e-16, 5e-324, 1e-300]),
)


@st.composite
def matrices(draw, max_rows=6, max_classes=7, dtypes=("float64", "float32", "float16")):
    n = draw(st.integers(1, max_rows))
    k = draw(st.integers(2, max_classes))
    weights = np.array(draw(st.lists(st.lists(_ENTRIES, min_size=k, max_size=k), min_size=n, max_size=n)))
    # One heavy entry a row, so that it can be normalised without inventing numbers of its own.
    weights[np.arange(n), draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n))] += 1.0
    return (weights / weights.sum(axis=1, keepdims=True)).astype(draw(st.sampled_from(dtypes)))


# Powers of two and ends of the range, where ties and equalities live, and everything between.
uniforms = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0**-53]), st.floats(0, 1))
