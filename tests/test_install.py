"""Without a C compiler the package installs all the same, with the numpy path."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_wheel_without_a_compiler(tmp_path):
    environment = {**os.environ, "CC": "/bin/false", "CXX": "/bin/false"}
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "aptset/kernels/rows.py" in names
    assert "aptset/py.typed" in names
    assert not [name for name in names if name.endswith((".so", ".c", ".h"))]
    code = "import aptset; from aptset.kernels import engines; assert [*engines.ENGINES] == ['numpy'];"
    code += "print(aptset.__file__);"
    code += "print(aptset.calibrate([[.75, .25]] * 9, [0] * 9, u=[0] * 9).predict_set([[.7, .3]], u=[0.5])[0])"
    path = f"import sys; sys.path.insert(0, {str(wheel)!r}); "
    done = subprocess.run([sys.executable, "-c", path + code], check=True, capture_output=True, text=True)
    assert str(tmp_path) in done.stdout
    assert "[0]" in done.stdout
