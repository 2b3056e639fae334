"""MLflow logs a classifier and loads it again: in skops format with one name of ours, and as a pickle."""

import mlflow
import numpy as np
import pytest
import skops.io
from mlflow.exceptions import MlflowException
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from aptset import ConformalClassifier

OURS = ["aptset.estimator.classifier.ConformalClassifier"]
X, codes = load_iris(return_X_y=True, as_frame=True)
y = load_iris().target_names[codes]


@pytest.fixture(autouse=True)
def tracking(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(store)


def logged(classifier, **settings):
    with mlflow.start_run():  # the requirements are given: to find them out starts another process
        return mlflow.sklearn.log_model(classifier, name="sets", pip_requirements=["aptset"], **settings).model_uri


@pytest.mark.filterwarnings("ignore")  # MLflow's own
@pytest.mark.parametrize("calibration", ["split", "cv+"])
def test_one_name_of_ours_is_all_that_mlflow_asks_for(calibration):
    classifier = ConformalClassifier(LogisticRegression(max_iter=1000), calibration=calibration, random_state=0)
    classifier.fit(X, y)
    assert skops.io.get_untrusted_types(data=skops.io.dumps(classifier)) == OURS
    with pytest.raises(MlflowException, match=OURS[0]):
        logged(classifier, serialization_format="skops")
    for settings in (
        {"serialization_format": "skops", "skops_trusted_types": OURS},
        {"serialization_format": "cloudpickle"},
    ):
        where = logged(classifier, **settings)
        again = mlflow.sklearn.load_model(where)
        assert np.array_equal(again.predict_set(X).mask, classifier.predict_set(X).mask)
        assert again.guarantee() == classifier.guarantee()
        served = mlflow.pyfunc.load_model(where)
        assert served.predict(X).tolist() == classifier.predict(X).tolist()
