"""A few of the attacks that `make fuzz` runs for as long as one likes."""

import pytest
from hypothesis import given

from fuzz.attacks import ATTACKS


@pytest.mark.parametrize("name", ATTACKS)
def test_attack(name):
    strategy, check = ATTACKS[name]
    outcomes = []
    given(strategy)(lambda attack: outcomes.append(check(attack)))()
    assert True in outcomes
    assert False in outcomes
