"""Record batches in, record batches out: the one seam that files, streams and clusters share. Needs pyarrow."""

from aptset.batches.calibrating import calibrate_batches as calibrate_batches
from aptset.batches.calibrating import start_search as start_search
from aptset.batches.predicting import predict_batches as predict_batches
from aptset.batches.search import ThresholdSearch as ThresholdSearch
from aptset.batches.sets import SetMaker as SetMaker
from aptset.batches.sets import set_maker as set_maker
from aptset.batches.states import STATE_SCHEMA as STATE_SCHEMA
from aptset.batches.states import merge_states as merge_states
