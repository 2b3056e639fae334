"""Values by number: engines number rows of bytes alike, and what goes by number is what went one by one."""

import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aptset.core.labels import Coded, as_objects, coded_array, coded_list, columns_of
from aptset.kernels import engines
from aptset.kernels.long_arrays import codes_of

KEYED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def numbered(values):
    """Number values by a dictionary, in order of first appearance."""
    numbers = {}
    return [numbers.setdefault(value, len(numbers)) for value in values], list(numbers)


@KEYED
@given(width=st.integers(1, 20), rows=st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_rows_of_bytes_by_number(path, width, rows):
    items = np.random.default_rng(width).integers(256, size=(6, width)).astype(np.uint8)
    items[1] = items[0]
    items[1, -1] ^= 1  # differs in its last byte alone
    matrix = items[rows]
    codes, firsts = codes_of(matrix)
    expected, different = numbered([row.tobytes() for row in matrix])
    assert codes.tolist() == expected
    assert [row.tobytes() for row in matrix[firsts]] == different


@pytest.mark.parametrize("n", [1, 511, 513, 5000])
def test_many_different_rows(path, n):
    values = np.random.default_rng(n).permutation(n)[np.r_[np.arange(n), np.arange(0, n, 3)]]
    codes, firsts = codes_of(values.view(np.uint8).reshape(len(values), 8))
    assert codes.tolist() == numbered(values.tolist())[0]
    assert firsts.tolist() == list(range(n))


@KEYED
@given(texts=st.lists(st.text(alphabet="ab\u00e9\U0001f40d ", max_size=4), min_size=1, max_size=30))
def test_texts_by_number(path, texts):
    values = np.array(texts)
    found = coded_array(values)
    assert (found.codes.tolist(), found.values) == numbered(values.tolist())
    assert coded_array(values[::-1]).in_full() == values.tolist()[::-1]
    assert found.in_full() == list(found) == [found[row] for row in range(len(found))]


@given(st.lists(st.one_of(st.integers(-2, 3), st.booleans(), st.none(), st.sampled_from(["a", "1", 1.0])), min_size=1))
def test_values_that_come(values):
    found = coded_list(values)
    assert found.in_full() == values
    assert found.distinct() == list(dict.fromkeys(values))
    some = found.some(np.arange(len(values))[::-2])
    assert some.distinct() == list(dict.fromkeys(values[::-2]))
    assert Coded([*found.values, "never"], found.codes).distinct() == found.distinct()


def test_columns_of_many_texts_are_those_of_few():
    classes, texts = np.array(["north", "east", "far away"]), np.array(["east", "n", "north", "north "])
    many = np.tile(texts, 400)
    expected = np.tile([1, -1, 0, -1], 400)
    np.testing.assert_array_equal(columns_of(many, classes), expected)
    np.testing.assert_array_equal(columns_of(texts, classes), expected[:4])
    np.testing.assert_array_equal(columns_of(many, as_objects(classes.tolist())), expected)


CHOSEN = """
import resource
import numpy as np
from aptset.kernels import engines
from aptset.kernels.long_arrays import codes_of

def unmixed(z):
    for shift, inverse in ((31, 0x319642B2D24D8EC3), (27, 0x96DE1B173F119089), (30, 1)):
        found = z
        for _ in range(64 // shift):
            found = z ^ (found >> np.uint64(shift))
        z = found * np.uint64(inverse)
    return z

words = unmixed(np.arange(200_000, dtype=np.uint64) << np.uint64(40)) - np.uint64(0x9E3779B97F4A7C15)
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
codes, firsts = codes_of(words.view(np.uint8).reshape(-1, 8))
assert len(firsts) == len(words)
"""


def test_chosen_items_do_not_crowd_the_table():
    """All want one slot under the plain hash that seeds go by: looking them up would take 20 billion steps."""
    pytest.importorskip("resource")
    found = subprocess.run([sys.executable, "-c", CHOSEN], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr or "20 seconds of a processor were not enough"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers are not on every system")
def test_signals_come_through_while_items_are_numbered():
    items, numbers = np.arange(2**23), np.full(2**23, -1, dtype=np.int32)

    def stop(*_):
        raise KeyboardInterrupt

    def number():
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        engines.ENGINES["compiled"].loops.codes(items, numbers, np.empty(2**23, dtype=np.int64))

    before = signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            number()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert numbers[-1] == -1, "the rest was left alone"
