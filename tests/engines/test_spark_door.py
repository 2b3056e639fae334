"""Spark itself is tested by `make test-engines`; here it need not be installed."""

import importlib.util
import sys
from importlib import import_module

import pytest


def test_without_pyspark_the_door_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "aptset.spark", raising=False)
    with pytest.raises(
        ModuleNotFoundError, match=r"aptset\.spark needs pyspark, and Java: pip install 'aptset\[spark\]'"
    ):
        import_module("aptset.spark")
