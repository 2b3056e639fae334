"""Where numbers lie; nothing here has torch, or needs it."""

import numpy as np
import pytest

import aptset
from aptset.core import devices


class OnCuda:
    """An array of another library in the memory of a GPU."""

    def __dlpack_device__(self):
        return 2, 0


def test_arrays_lists_and_frames_are_on_no_device():
    class OnHost:
        def __dlpack_device__(self):
            return 1, 0

    for values in (np.ones(3), [1, 2], "text", None, OnHost(), np.ones((2, 2)).view(np.matrix)):
        assert not devices.is_on_device(values)
        assert not devices.is_tensor(values)
    assert devices.is_on_device(OnCuda())
    array = np.ones(3)
    assert devices.like_input(array, [1, 2]) is array
    assert devices.on_host(array) is array


def test_without_torch_an_array_on_a_device_says_what_to_install(monkeypatch):
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    calibration = aptset.calibrate([[0.5, 0.5]] * 20, [0] * 20)
    for call in (lambda: aptset.calibrate(OnCuda(), [0]), lambda: calibration.predict_mask(OnCuda())):
        with pytest.raises(ModuleNotFoundError, match=r"on a device need torch: pip install 'aptset\[torch\]'"):
            call()
