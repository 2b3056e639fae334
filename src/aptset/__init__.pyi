"""The public names with their types; ``__init__.py`` loads them when they are used."""

from aptset.arrow.calibrating import calibrate_batches as calibrate_batches
from aptset.arrow.predicting import predict_batches as predict_batches
from aptset.audits.audit import audit as audit
from aptset.audits.compare import compare as compare
from aptset.calibration.acceptance import Acceptance as Acceptance
from aptset.calibration.acceptance import learn_acceptance as learn_acceptance
from aptset.calibration.acceptance_threshold import AcceptanceThreshold as AcceptanceThreshold
from aptset.calibration.calibrate import calibrate as calibrate
from aptset.calibration.calibrate import calibrate_cv as calibrate_cv
from aptset.calibration.calibration import Calibration as Calibration
from aptset.calibration.cross_calibration import CrossCalibration as CrossCalibration
from aptset.calibration.formulas import Confidence as Confidence
from aptset.calibration.formulas import adaptive_scores as adaptive_scores
from aptset.calibration.formulas import conformal_rank as conformal_rank
from aptset.calibration.formulas import oracle_sets as oracle_sets
from aptset.calibration.label_ratios import LabelRatios as LabelRatios
from aptset.calibration.label_ratios import label_ratios as label_ratios
from aptset.calibration.online import Online as Online
from aptset.calibration.tuning import Tuned as Tuned
from aptset.calibration.tuning import tune as tune
from aptset.conformal import *  # noqa: F403
from aptset.core.bands import LabelBands as LabelBands
from aptset.core.levels import Assurance as Assurance
from aptset.core.overlapping import Overlapping as Overlapping
from aptset.estimator.classifier import ConformalClassifier as ConformalClassifier
from aptset.estimator.density import Ratio as Ratio
from aptset.estimator.density import density_ratio as density_ratio
from aptset.estimator.full_conformal import KernelDensityClassifier as KernelDensityClassifier
from aptset.estimator.loading import load as load
from aptset.metrics import breakdown as breakdown
from aptset.metrics import coverage as coverage
from aptset.metrics import coverage_by as coverage_by
from aptset.metrics import coverage_gap as coverage_gap
from aptset.metrics import empty_rate as empty_rate
from aptset.metrics import labels_below as labels_below
from aptset.metrics import macro_coverage as macro_coverage
from aptset.metrics import mean_size as mean_size
from aptset.metrics import mean_size_by as mean_size_by
from aptset.metrics import singleton_accuracy as singleton_accuracy
from aptset.metrics import singleton_rate as singleton_rate
from aptset.metrics import size_distribution as size_distribution
from aptset.metrics import size_given_coverage as size_given_coverage
from aptset.metrics import size_given_coverage_by as size_given_coverage_by
from aptset.metrics import size_stratified_coverage as size_stratified_coverage
from aptset.metrics.estimates import Estimate as Estimate
from aptset.metrics.evaluation import Evaluation as Evaluation
from aptset.metrics.evaluation import evaluate as evaluate
from aptset.metrics.monitor import CoverageMonitor as CoverageMonitor
from aptset.metrics.monitor import ErrorMonitor as ErrorMonitor
from aptset.metrics.planning import calibration_size as calibration_size
from aptset.metrics.planning import coverage_test as coverage_test
from aptset.metrics.scorers import coverage_score as coverage_score
from aptset.metrics.scorers import negative_mean_size as negative_mean_size
from aptset.metrics.scorers import negative_size_given_coverage as negative_size_given_coverage
from aptset.metrics.scorers import scorer as scorer
from aptset.metrics.scorers import worst_slice_score as worst_slice_score
from aptset.metrics.worst_slice import WorstSlice as WorstSlice
from aptset.metrics.worst_slice import worst_slice_coverage as worst_slice_coverage
from aptset.reports.making import report as report
from aptset.scores import *  # noqa: F403
from aptset.sets import PredictionSets as PredictionSets

__version__: str
