"""The public names with their types; ``__init__.py`` loads them when they are used."""

from aptset.audits.auditing import audit as audit
from aptset.audits.comparing import compare as compare
from aptset.batches.calibrating import calibrate_batches as calibrate_batches
from aptset.batches.predicting import predict_batches as predict_batches
from aptset.calibrations import *  # noqa: F403
from aptset.data.groups.bands import LabelBands as LabelBands
from aptset.data.groups.overlapping import Overlapping as Overlapping
from aptset.data.sets import PredictionSets as PredictionSets
from aptset.estimator.classifier import ConformalClassifier as ConformalClassifier
from aptset.estimator.density import Ratio as Ratio
from aptset.estimator.density import density_ratio as density_ratio
from aptset.estimator.loading import load as load
from aptset.judging.estimates import Estimate as Estimate
from aptset.judging.evaluation import Evaluation as Evaluation
from aptset.judging.evaluation import evaluate as evaluate
from aptset.judging.metrics import breakdown as breakdown
from aptset.judging.metrics import coverage as coverage
from aptset.judging.metrics import coverage_by as coverage_by
from aptset.judging.metrics import coverage_gap as coverage_gap
from aptset.judging.metrics import empty_rate as empty_rate
from aptset.judging.metrics import labels_below as labels_below
from aptset.judging.metrics import macro_coverage as macro_coverage
from aptset.judging.metrics import mean_size as mean_size
from aptset.judging.metrics import mean_size_by as mean_size_by
from aptset.judging.metrics import singleton_accuracy as singleton_accuracy
from aptset.judging.metrics import singleton_rate as singleton_rate
from aptset.judging.metrics import size_distribution as size_distribution
from aptset.judging.metrics import size_given_coverage as size_given_coverage
from aptset.judging.metrics import size_given_coverage_by as size_given_coverage_by
from aptset.judging.metrics import size_stratified_coverage as size_stratified_coverage
from aptset.judging.monitors.coverage import CoverageMonitor as CoverageMonitor
from aptset.judging.planning import calibration_size as calibration_size
from aptset.judging.planning import coverage_test as coverage_test
from aptset.judging.scorers import coverage_score as coverage_score
from aptset.judging.scorers import negative_mean_size as negative_mean_size
from aptset.judging.scorers import negative_size_given_coverage as negative_size_given_coverage
from aptset.judging.scorers import scorer as scorer
from aptset.judging.scorers import worst_slice_score as worst_slice_score
from aptset.judging.worst_slice import WorstSlice as WorstSlice
from aptset.judging.worst_slice import worst_slice_coverage as worst_slice_coverage
from aptset.probabilities.calibrating import calibrate as calibrate
from aptset.probabilities.calibrating_folds import calibrate_cv as calibrate_cv
from aptset.probabilities.calibration import Calibration as Calibration
from aptset.probabilities.cross import CrossCalibration as CrossCalibration
from aptset.probabilities.formulas import adaptive_scores as adaptive_scores
from aptset.probabilities.formulas import conformal_rank as conformal_rank
from aptset.probabilities.label_ratios import LabelRatios as LabelRatios
from aptset.probabilities.label_ratios import label_ratios as label_ratios
from aptset.probabilities.oracle import oracle_sets as oracle_sets
from aptset.probabilities.streams.online import Online as Online
from aptset.probabilities.tuning import Tuned as Tuned
from aptset.probabilities.tuning import tune as tune
from aptset.reports.making import report as report
from aptset.scores import *  # noqa: F403

__version__: str
