"""The checks of scalars: what they take, and that a refusal names the argument, the rule, the value and the way out."""

import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import aptset
from aptset.core import validate


@pytest.mark.parametrize("value", [2, np.int16(2), 5])
def test_whole_numbers_come_back_as_int(value):
    assert type(validate.whole(value, "n", 2, most=5)) is int


@pytest.mark.parametrize("value", [True, np.True_, 1, 6, 2.0, np.float64(3), "3", None, float("nan")])
def test_what_is_no_whole_number_within_the_bounds_is_refused(value):
    words = f"n must be from 2 to 5; got {value!r}. Pass n=3."
    with pytest.raises(ValueError, match=re.escape(words)):
        validate.whole(value, "n", 2, "from 2 to 5", most=5, way_out="Pass n=3.")


def test_the_rule_of_a_whole_number_is_its_lower_bound():
    with pytest.raises(ValueError, match=r"^n must be a whole number of at least 1; got 0\.$"):
        validate.whole(0, "n", 1)


@pytest.mark.parametrize("value", [True, 0, 1, -0.1, 1.5, float("nan"), float("inf"), 10**400, "0.5", None, [0.5]])
def test_what_is_no_share_is_refused(value):
    with pytest.raises(ValueError, match=r"^part must be in \(0, 1\), of the rows; got "):
        validate.share(value, "part", "of the rows")


@pytest.mark.parametrize("value", [0.25, np.float32(0.25), np.float64(0.25)])
def test_shares_come_back_as_float(value):
    assert validate.share(value, "part") == 0.25
    assert type(validate.share(value, "part")) is float


def test_words_and_flags():
    assert validate.one_of("b", ("a", "b"), "kind") == "b"
    with pytest.raises(ValueError, match=r"^kind must be one of \['a', 'b'\]; got 'c'\.$"):
        validate.one_of("c", ("a", "b"), "kind")
    assert validate.flag(np.True_, "quick") is True
    for value in ("no", 1, None):
        with pytest.raises(TypeError, match=r"^quick must be True or False; got "):
            validate.flag(value, "quick")


def test_warnings_point_at_the_first_line_outside_the_package():
    calibration = aptset.calibrate([[0.5, 0.5], [0.75, 0.25]], [0, 1])
    with warnings.catch_warnings(record=True) as caught, ThreadPoolExecutor(1) as threads:
        warnings.simplefilter("always")
        calibration.predict_set([[0.5, 0.5]], 0.01)
        threads.submit(calibration.predict_set, [[0.5, 0.5]], 0.01).result()
    assert [Path(one.filename).name for one in caught] == [Path(__file__).name, "thread.py"]
