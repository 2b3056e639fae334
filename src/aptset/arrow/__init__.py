"""Record batches in, record batches out: the one interface that files, streams and clusters share. Needs pyarrow.

The names below are loaded when first used: the commands only need some columns of this room.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aptset.arrow.calibrating import ThresholdSearch as ThresholdSearch
    from aptset.arrow.calibrating import calibrate_batches as calibrate_batches
    from aptset.arrow.calibrating import start_search as start_search
    from aptset.arrow.predicting import BatchPredictor as BatchPredictor
    from aptset.arrow.predicting import predict_batches as predict_batches
    from aptset.arrow.predicting import set_maker as set_maker
    from aptset.arrow.states import STATE_SCHEMA as STATE_SCHEMA
    from aptset.arrow.states import merge_states as merge_states
else:
    _MODULES = {
        "calibrating": ("ThresholdSearch", "calibrate_batches", "start_search"),
        "predicting": ("BatchPredictor", "predict_batches", "set_maker"),
        "states": ("STATE_SCHEMA", "merge_states"),
    }
    _HOMES = {name: module for module, names in _MODULES.items() for name in names}
    __all__ = sorted(_HOMES)

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
