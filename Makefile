# Two commands do everything: `make run` (the main job on embedded data) and `make test` (all the checks).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt README.md $(shell find src -type f -not -name '*.pyc' -not -name '*.so')

.PHONY: run test test-network test-gpu test-models test-engines lint format browser java bench fuzz coverage conformance dist matrix clean

run: $(VENV)/installed
	$(BIN)/aptset run

test: $(VENV)/tested lint browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --doctest-modules --doctest-ignore-import-errors --ignore-glob='*/aptset/mlflow/*' --pyargs aptset

# torch in the build for processors where there is one; without this pin it comes with gigabytes for other devices. NVIDIA's
# compiler needs no device: the kernels are compiled with it, and run by an emulator.
test-network: $(VENV)/tested
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 cuda-bindings nvidia-cuda-nvrtc
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile -p no:logging tests_network tests_gpu
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --doctest-modules --pyargs aptset.torch aptset.calibration.tensors

# On a machine with a GPU, where nothing needs to be installed but torch, numpy and pytest.
# Most of the time goes into compiling kernels and graphs: several processes share it. What fills the memory runs alone.
GPU_PARTS ?= 16
test-gpu:
	pids=; for part in $$(seq 0 $$(($(GPU_PARTS) - 1))); do APTSET_PART=$$part/$(GPU_PARTS) OMP_NUM_THREADS=1 PYTHONPATH=src \
		$(PYTHON) -m pytest -q -p no:logging -k "not no_memory_left" tests_gpu & pids="$$pids $$!"; done; \
		failed=0; for pid in $$pids; do wait $$pid || failed=1; done; exit $$failed
	PYTHONPATH=src $(PYTHON) -m pytest -q -p no:logging -k no_memory_left tests_gpu/test_cuda.py

# Real XGBoost, LightGBM, CatBoost, skorch, MLflow and ONNX, and what the recipes use: large, and with versions of their own.
test-models: $(VENV)/tested
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 '.[models,mlflow,onnx]' skorch \
	  onnxruntime skl2onnx onnxmltools onnxscript transformers keras flaml duckdb
	MLFLOW_DISABLE_TELEMETRY=true OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests_models
	MLFLOW_DISABLE_TELEMETRY=true OMP_NUM_THREADS=1 $(BIN)/python -m pytest -W ignore --doctest-modules --pyargs aptset.mlflow aptset.onnx

# A real S3 server, moto's, and clusters of dask and Spark (which needs Java): the tests start them on this machine.
test-engines: $(VENV)/tested java
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'moto[server]' fsspec 'dask[dataframe,distributed]>=2026.1.1' 'pyspark>=4.0.1'
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile tests_engines
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --doctest-modules --pyargs aptset.dask

java:
	@command -v java > /dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get > /dev/null || \
	  { apt-get update -qq && apt-get install -qq -y --no-install-recommends openjdk-17-jre-headless > /dev/null; } || true

lint: $(VENV)/tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# The tests of the report open it in Debian's chromium and Firefox, and let axe-core look at it: fetched where that is possible.
browser: .axe/package
	@{ command -v chromium && command -v firefox-esr; } > /dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get > /dev/null || \
	  { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium firefox-esr > /dev/null; } || true

.axe/package:
	@mkdir -p .axe && cd .axe && command -v npm > /dev/null && npm pack --silent axe-core@4 > /dev/null && \
	  tar xzf axe-core-*.tgz && rm axe-core-*.tgz || true

# The site, in docs/_build/html, with no network: every block of code in it is run, every warning is an error. torch is
# there for its pages.
.PHONY: docs
docs: $(VENV)/documented
	$(BIN)/python docs/run_pages.py
	rm -rf docs/_build docs/gallery docs/reference/generated
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --nitpicky --quiet docs docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html

$(VENV)/documented: $(VENV)/tested
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 '.[onnx]' --group docs
	@touch $@

format: $(VENV)/tested
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/pip:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@touch $@

$(VENV)/installed: $(VENV)/pip $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[cli]'
	@touch $@

$(VENV)/tested: $(VENV)/pip $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[all]' --group test
	@touch $@ $(VENV)/installed

# The fuzzers of tests/fuzz for as long as one likes: make fuzz SECONDS=600. With ASAN=1 the loops are built with
# AddressSanitizer first, in a folder of their own.
SECONDS ?= 60
ASAN ?=

fuzz: $(VENV)/tested
	$(if $(ASAN),sh tests/fuzz/sanitized.sh $(BIN)/python,PYTHONPATH=tests $(BIN)/python) -m fuzz $(SECONDS)

# Peers live in an environment of their own, and each may fail to install. torch comes first, by its version: a bare one
# would bring gigabytes of CUDA. TorchCP wants packages that its prediction never uses: installed alone.
BENCH := .bench-venv
PEERS := mapie crepes puncc
QUICK ?=

bench: $(BENCH)/installed
	$(BENCH)/bin/python -m benchmarks $(if $(QUICK),--quick)

$(BENCH)/peers:
	$(PYTHON) -m venv $(BENCH)
	-$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 && \
	  $(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps torchcp
	-for peer in $(PEERS); do $(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check $$peer; done
	@touch $@

$(BENCH)/installed: $(BENCH)/peers $(SOURCES)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check '.[cli,plots]' polars
	@touch $@

# The same questions to every library, each in an environment of its own; one that cannot be installed is said to be so.
# make conformance LIBRARIES='mapie puncc' asks these two again.
LIBRARIES ?=

conformance: $(VENV)/tested
	$(BIN)/python -m conformance $(LIBRARIES)

# Which lines and branches the tests run, processes that they start among them.
coverage: $(VENV)/tested browser
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group coverage
	rm -f .coverage .coverage.*
	APTSET_EXAMPLES=10 OMP_NUM_THREADS=1 $(BIN)/python -m coverage run -m pytest -n 2 --dist worksteal tests
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

# What others install: built twice with the same bits, and each wheel tried in a clean environment without a compiler.
# `make matrix` tries it with every Python that is here, and with the oldest versions that pyproject.toml allows.
DIST := .dist-venv

dist: $(DIST)/tools
	$(DIST)/bin/python -m release dist

matrix: dist
	$(DIST)/bin/python -m release matrix

$(DIST)/tools: release/tools.txt
	$(PYTHON) -m venv $(DIST)
	$(DIST)/bin/python -m pip install --quiet --disable-pip-version-check --requirement release/tools.txt
	@touch $@

clean:
	rm -rf $(VENV) $(BENCH) $(DIST) .conformance build dist .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf docs/_build docs/gallery docs/reference/generated docs/figures/generated
