# The commands of the repository. Each makes the environment it needs, once, and again when pyproject.toml changes.
# Input: a Python (PYTHON=... to choose it) and pip's usual package index.
#
#   make tour            install, train the digit classifier, write the page that shows the machine
#   make test            lint, format, types, import rules, every test
#   make install         .venv, with what the tests need
#   make lint            of these, what takes seconds
#   make test-torch      the tests that compare with torch, which make test skips where torch is not installed
#   make test-versions   capture's tests and the whole-program tests on Python 3.11, 3.12 and 3.13
#   make labs            every lab: its starter fails, its reference passes, wrong answers are told why
#   make wheel           build the wheel, and use it outside the repository
#   make stubs           what editors complete after `cutaway.` and `Tensor.`, written anew
#   make site            the documentation, as a folder that works offline (SITE_DRAFT=1: without running its commands)
#   make clean           remove everything made here
#
# These measure, and keep what they find as reports/NAME.txt:
#   make oracle          every operator against NumPy, torch and its own derivatives; the table goes to build/oracle.md
#   make oracle-kernels  the same rows as loop nests, C++ and Triton, which is interpreted, and compiled to PTX (JOBS=)
#   make programs        ten thousand composed programs against an interpreter in float64
#   make pairs           every pair of operators compiled by stage 2 against eager (PAIRS=3000: so many)
#   make names           torch's documented names: same, differing, not here (the extra `oracle`)
#   make numpy           every NumPy function that is captured, compiled against NumPy itself
#   make libraries       transformers, timm and torchvision as installed, on torch and on Cutaway (ONLY=, JOBS=)
#   make models          the model files of tests/models on torch and on Cutaway
#   make language-model  a small GPT-2 trained on a real text in both: two curves
#   make fuzz-capture    20,000 random programs on each Python, compiled against eager
#   make fuzz-attributes  20,000 random programs of attributes, compiled against eager
#   make fuzz-autograd   20,000 random tensor programs through AOT autograd, against eager
#   make fuzz-kernels    20,000 random tensor programs as kernels: fused, unfused, eager, with poisoned buffers
#   make fuzz-rewrites   20,000 random programs over operators' attributes, on every backend
#   make lab-walk        the labs as a new user takes them, step by step, with minutes
#   make planted-faults  faults planted in small models: does the bisector name each?
#   make minified-faults the same faults: how small is the program that the minifier leaves?
#   make distributed     faults, 200 random programs and training in two and four processes (ONLY=part)
#   make distributed-cost  a data-parallel step: predicted and measured, drawn, and predicted up to 4,096 ranks
#   make site-check      every page of the site in Chromium: axe-core, console, requests, width, links, search
#   make zensical        the same pages, built by Zensical in an environment of its own: words, links, what it lacks
#   make explorer-check  the explorer's pages of six programs in Chromium, a walk by keyboard, a thousand nodes
#   make cache-faults    many processes on one cache folder, with random kills and damage; many threads, many shapes
#   make random-bits     a million draws of every distribution, every build, bit for bit (DRAWS=, JOBS=)
#   make vector-math     the errors of the generated C++'s mathematical functions
#   make gpu             every operator, the skeleton, users' kernels, copies, the profiler, on an NVIDIA GPU (CuPy, Triton)
#   make gpu-compiled    compiled operators in three dtypes and random programs on an NVIDIA GPU, against eager there
#   make gpu-speed       compiled programs on an NVIDIA GPU beside torch.compile, where torch is installed
#   make gpu-losses      fifty steps of training on an NVIDIA GPU beside torch's eager and torch.compile
#   make gpu-distributed  data-parallel training on NVIDIA GPUs by NCCL, beside torch's (RANKS="2 4")
#   make cpu-speed       compiled programs beside torch.compile, jax.jit, NumPy, eager (the extra `bench`)
#   make memory-peak     what a call of four models is predicted to hold, beside what is allocated and resident
#   make kept-memory     what `runtime.keep_freed` wins in a training step, and how much a process then keeps
#   make open-sizes      softmax, layer norm, attention at 20 shapes: compiled once beside compiled for each
#   make growth          how the first call's time grows with the graph, beside torch.compile's (the extra `oracle`)
#   make training-step   a whole training step beside torch's: eager, model compiled, step compiled
#   make call-overhead   what a compiled call costs, beside torch.compile (the extra `oracle`)
#   make profiler-cost   what the profiler costs a training step: off, idle, recording
#   make capture-time    how long capture of the language model takes, beside torch's Dynamo
#   make against-tree TREE=path  import, capture and calls beside another checkout of this repository
#   make regions         what nested_compile_region saves: 24 equal blocks beside one
#   make capture-coverage  which small programs are captured whole here and by torch's Dynamo
#   make saved-bytes     what is saved for the backward here and by torch, on the four models
#   make partition-times what each partitioner costs in time, forward and backward
#   make eager-speed     what one eager call costs here and in torch (the extra `oracle`)
#   make operator-speed  operators one at a time, compiled, beside torch.compile: which kernels are slow?
#   make operator-axes   the same rows of uneven and narrow sizes, of other dtypes, with gradients
#   make convolution     convolution, pooling and ResNet-50 beside torch (the extra `oracle`)
#
# These look for faults and print them:
#   make capture-identity  does capture still make the guards, graphs and residual code it made? (WRITE=1: from now on)
#   make fuzz-products   random contractions in C++ beside NumPy
#   make fuzz-updates    random updates in place, compiled, beside eager
#   make loops           every operator's loops, asked of GCC: has each lanes, or a reason to have none?

PYTHON ?= $(shell .ci/find-python 3.11 3.12 3.13)
VENV ?= .venv
PYTEST_ARGS ?= -n auto --dist worksteal
BIN := $(VENV)/bin
TESTED := stage_contracts stage0_eager stage1_capture stage2_autograd stage3_lowering stage4_runtime cutaway tests
# A report's name is its target's. It is written aside first, so that a run that fails leaves the last one.
# QUICK=1 shows that a command works, in seconds where it can: a report is printed, not kept.
KEEP = $(if $(QUICK),--quick,> build/$@.txt || { cat build/$@.txt; exit 1; }; mv build/$@.txt reports/$@.txt)
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# A fault of the compiler itself ends a program with status 70, though the call ran eagerly (stage_contracts/events.py).
export CUTAWAY_INTERNAL_ERRORS = exit

# Many tests start programs of their own: without compiled files, each spends a second on compiling this repository.
unexport PYTHONDONTWRITEBYTECODE

# Every command: none of them is the name of a file it makes.
.PHONY: install tour test lint stubs labs wheel test-torch test-versions fuzz-capture fuzz-attributes fuzz-autograd fuzz-rewrites gpu site clean
.PHONY: gpu-compiled gpu-speed gpu-losses gpu-distributed oracle names numpy programs models language-model pairs saved-bytes partition-times convolution operator-speed operator-axes eager-speed
.PHONY: capture-identity random-bits vector-math cache-faults fuzz-products fuzz-updates call-overhead training-step cpu-speed capture-time capture-coverage
.PHONY: against-tree distributed libraries planted-faults minified-faults profiler-cost regions site-check explorer-check lab-walk zensical
.PHONY: loops oracle-kernels fuzz-kernels growth memory-peak kept-memory open-sizes distributed-cost
.NOTPARALLEL:

install: $(VENV)/installed-dev

tour: $(VENV)/installed
	$(BIN)/cutaway tour $(TOUR_ARGS)

test: lint
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What an editor completes after `cutaway.` and `Tensor.`, with signatures.
stubs: $(VENV)/installed-dev
	$(BIN)/python -m cutaway.stubs

labs: $(VENV)/installed-dev
	$(BIN)/python -m pytest labs

# The wheel is installed into a folder, without the packages it needs: those are the environment's.
wheel: $(VENV)/installed-test
	rm -rf build/wheel
	$(PIP) wheel . --no-deps --wheel-dir build/wheel
	$(PIP) install --no-deps --target build/wheel/site build/wheel/*.whl
	cd build/wheel && PYTHONPATH=site $(abspath $(BIN)/python) ../../.ci/use_wheel.py site

test-torch: $(VENV)/installed-dev $(VENV)/installed-oracle
	$(BIN)/python -m pytest $(PYTEST_ARGS) tests/oracle $(shell grep -rlE --include='test_*.py' 'importorskip\("torch"\)' $(TESTED))

test-versions:
	.ci/test-versions

# Each version's programs are the same: what differs is the bytecode.
FUZZ_PROGRAMS ?= 20000
fuzz-capture:
	.ci/fuzz-capture $(FUZZ_PROGRAMS)

capture-identity: $(VENV)/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m stage1_capture.tests.identity $(if $(WRITE),--write) $(if $(QUICK),--every 100)

ATTRIBUTE_PROGRAMS ?= 20000
fuzz-attributes: $(VENV)/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m stage1_capture.tests.fuzz_attributes --programs $(ATTRIBUTE_PROGRAMS) \
	    --seed $(or $(SEED),0) --report reports/fuzz-attributes.txt

AUTOGRAD_PROGRAMS ?= 20000
fuzz-autograd: $(VENV)/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.tensor_programs.fuzz --programs $(AUTOGRAD_PROGRAMS) --seed $(or $(SEED),0) \
	    --report reports/fuzz-autograd.txt

KERNEL_PROGRAMS ?= 20000
fuzz-kernels: $(VENV)/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.tensor_programs.fuzz_kernels --programs $(KERNEL_PROGRAMS) --seed $(or $(SEED),0) \
	    --report reports/fuzz-kernels.txt

# REWRITE_PROGRAMS=... so many; FUZZ_COMPILER=0 leaves out the C++ compiler, which takes a third of the time.
REWRITE_PROGRAMS ?= 20000
fuzz-rewrites: $(VENV)/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.rewrite_programs.fuzz --programs $(REWRITE_PROGRAMS) --seed $(or $(SEED),0) \
	    --report reports/fuzz-rewrites.txt

# Processes on one cache folder, with random kills and damage; then threads that call one function with many shapes.
FAULT_SECONDS ?= $(if $(QUICK),10,120)
cache-faults: $(VENV)/installed-test
	{ $(BIN)/python -m tests.threads.many_shapes --heading && \
	  $(BIN)/python -m stage4_runtime.tests.cache_faults --processes $(or $(PROCESSES),32) --seconds $(FAULT_SECONDS) \
	    --seed $(or $(SEED),0) && \
	  $(BIN)/python -m tests.threads.many_shapes --threads 16 --shapes $(or $(SHAPES),$(if $(QUICK),5,50)) \
	    --seed $(or $(SEED),0); } $(if $(QUICK),,$(KEEP))

PRODUCTS ?= 2000
fuzz-products: $(VENV)/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.kernels.test_contractions_compiled --programs $(PRODUCTS) --seed $(or $(SEED),0)

UPDATE_PROGRAMS ?= 2000
fuzz-updates: $(VENV)/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.kernels.test_updates_compiled --programs $(UPDATE_PROGRAMS) --seed $(or $(SEED),0)

DRAWS ?= 1000000
random-bits: $(VENV)/installed-test | build
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.random_bits.report --draws $(if $(QUICK),1000 --rows randperm,$(DRAWS)) $(if $(JOBS),--jobs $(JOBS)) \
	    --table build/random-bits.txt --report reports/random-bits.txt

# Whichever python3 has CuPy: a GPU machine often brings its own.
GPU_PYTHON ?= python3
gpu: | build
	for name in eager skeleton user_kernels graphs streams copies autotune profiler guides safety; do \
	    $(GPU_PYTHON) benchmarks/gpu/$$name.py > build/gpu.txt || { cat build/gpu.txt; exit 1; }; \
	    mv build/gpu.txt reports/gpu-$$name.txt; tail -n 1 reports/gpu-$$name.txt; done

gpu-compiled: | build
	$(GPU_PYTHON) -m benchmarks.gpu.compiled $(if $(QUICK),--programs 8 --every 100) > build/$@.txt; status=$$?; \
	$(if $(QUICK),,mv build/$@.txt reports/$@.txt;) exit $$status

gpu-speed: | build
	$(GPU_PYTHON) -m benchmarks.gpu.speed $(if $(QUICK),--rows tiny,> build/$@.txt || { cat build/$@.txt; exit 1; }; mv build/$@.txt reports/$@.txt)

gpu-losses: | build
	$(GPU_PYTHON) -m benchmarks.gpu.losses > build/$@.txt || { cat build/$@.txt; exit 1; }; mv build/$@.txt reports/$@.txt

GPU_MODELS ?= "gpt2 medium" resnet50 gpt2
RANKS ?= 2
gpu-distributed: | build
	$(GPU_PYTHON) -m benchmarks.gpu.distributed --ranks $(RANKS) --models $(GPU_MODELS) > build/$@.txt || { cat build/$@.txt; exit 1; }; \
	mv build/$@.txt reports/$@.txt

oracle: $(VENV)/installed-oracle | build
	$(BIN)/python -m tests.oracle.report $(if $(QUICK),add)

oracle-kernels: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.oracle.kernel_columns $(if $(JOBS),--jobs $(JOBS)) \
	    $(if $(QUICK),add,--report reports/$@.txt)

loops: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.kernels.operator_loops $(if $(QUICK),add)

PROGRAMS ?= 10000
programs: $(VENV)/installed-test
	$(BIN)/python -m tests.oracle.programs_report $(PROGRAMS)

models: $(VENV)/installed-oracle | build
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.models.compare $(KEEP)

language-model: $(VENV)/installed-oracle | build
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.language_model $(KEEP)

pairs: $(VENV)/installed-dev | build
	$(BIN)/python -m tests.oracle.pairs $(PAIRS) $(KEEP)

saved-bytes: $(VENV)/installed-oracle | build
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.saved_bytes $(KEEP)

partition-times: $(VENV)/installed-test | build
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.partition_times $(KEEP)

VALUES ?= 1000000
vector-math: $(VENV)/installed-test | build
	$(BIN)/python -m stage3_lowering.tests.ulp_table --values $(VALUES) --report reports/$@.txt

planted-faults: $(VENV)/installed-test | build
	$(BIN)/python -m tests.debug.planted_faults $(KEEP)

lab-walk: $(VENV)/installed-test | build
	$(BIN)/python -m tests.docs.site_walk $(KEEP)

minified-faults: $(VENV)/installed-test | build
	$(BIN)/python -m tests.debug.minified_faults $(KEEP)

eager-speed: $(VENV)/installed-oracle | build
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.eager_calls $(KEEP)

operator-speed: $(VENV)/installed-oracle | build
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.operator_speed $(if $(SPEED_TORCH),--torch-python $(SPEED_TORCH)) $(KEEP)

operator-axes: $(VENV)/installed-oracle | build
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.operator_speed --axes uneven narrow float64 bfloat16 gradients \
	    $(if $(SPEED_TORCH),--torch-python $(SPEED_TORCH)) $(KEEP)

convolution: $(VENV)/installed-oracle | build
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.convolution $(KEEP)

call-overhead: $(VENV)/installed-oracle | build
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.call_overhead $(KEEP)

training-step: $(VENV)/installed-oracle | build
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.training_step $(KEEP)

# SPEED_TORCH=/path/to/python, SPEED_JAX=...: ask a torch or a jax that lives in an environment of its own.
# SPEED_ARGS="--quick" or "--rows softmax" prints a part; the kept table is that of a whole run.
cpu-speed: $(VENV)/installed-bench | build
	$(BIN)/python -m benchmarks.cpu_speed $(if $(SPEED_TORCH),--torch-python $(SPEED_TORCH)) \
	    $(if $(SPEED_JAX),--jax-python $(SPEED_JAX)) $(SPEED_ARGS) > build/$@.txt
	cat build/$@.txt
	$(if $(SPEED_ARGS),,mv build/$@.txt reports/$@.txt)

memory-peak: $(VENV)/installed-test | build
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.memory_peak $(KEEP)

kept-memory: $(VENV)/installed-test | build
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.kept_memory $(KEEP)

open-sizes: $(VENV)/installed-test | build
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.open_kernels $(KEEP)

growth: $(VENV)/installed-oracle | build
	$(BIN)/python -m benchmarks.cpu_speed --target growth --rows operators layers lines --peers torch > build/$@.txt
	cat build/$@.txt
	mv build/$@.txt reports/$@.txt

distributed-cost: $(VENV)/installed-dev | build
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.distributed.cost_report --drawing reports/distributed-cost.svg $(KEEP)

DISTRIBUTED_PROGRAMS ?= 200
distributed: $(VENV)/installed-dev | build
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.distributed.large_runs --programs $(DISTRIBUTED_PROGRAMS) \
	--seed $(or $(SEED),0) $(if $(ONLY),--only "$(ONLY)") $(if $(QUICK),--quick,--report reports/$@.txt)

profiler-cost: $(VENV)/installed-test | build
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.profiler_cost $(KEEP)

capture-time: $(VENV)/installed-oracle | build
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.capture_time $(KEEP)

regions: $(VENV)/installed-test | build
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.regions $(KEEP)

# TREE=path of another checkout, of the tag `start` say; what it is stands in the report.
against-tree: $(VENV)/installed-test | build
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/against_tree.py $(TREE) > build/$@.txt
	cat build/$@.txt
	mv build/$@.txt reports/$@.txt

capture-coverage: $(VENV)/installed-oracle | build
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.capture_coverage $(KEEP)

# Cutaway's processes run in an environment that has no torch.
libraries: $(VENV)/installed-libraries $(VENV)-no-torch/installed | build
	$(BIN)/python -m tests.libraries.report --ours $(VENV)-no-torch/bin/python $(if $(ONLY),--only "$(ONLY)") $(if $(JOBS),--jobs $(JOBS)) $(KEEP)

names: $(VENV)/installed-oracle | build
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.torch_names.names_report $(KEEP)

numpy: $(VENV)/installed-test | build
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.numpy_programs.report $(KEEP)

site: $(VENV)/installed-site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The site is in site/; open site/index.html"

# The extra `browser`, a Chromium of the system, and npm's axe-core: what is missing is said.
site-check: $(VENV)/installed-browser site | build
	$(BIN)/python -m tests.browser.site_report $(KEEP)

zensical: site $(VENV)-zensical/installed | build
	$(BIN)/python -m tests.browser.zensical_report --program $(VENV)-zensical/bin/zensical > build/$@.txt || { cat build/$@.txt; exit 1; }
	mv build/$@.txt reports/$@.txt

explorer-check: $(VENV)/installed-browser | build
	$(BIN)/python -m tests.browser.explorer_report $(KEEP)

clean:
	rm -rf .venv .venv-3.* site build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

build:
	mkdir -p $@

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 to 3.13 was found; install one, or say PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp for each set of packages; pip is asked again only after pyproject.toml changed.
$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(PIP) install --editable .
	@touch $@

$(VENV)-no-torch/installed: pyproject.toml
	.ci/make-venv $(VENV)-no-torch $(PYTHON)
	$(VENV)-no-torch/bin/python -m pip --quiet install 'pillow>=11' 'transformers>=5.23,<5.24'
	$(VENV)-no-torch/bin/python -m pip --quiet install --no-deps 'timm>=1.0.31,<2' 'torchvision==0.28.0'
	@touch $@

$(VENV)-zensical/installed: pyproject.toml
	test -x $(VENV)-zensical/bin/python || $(PYTHON) -m venv $(VENV)-zensical
	$(VENV)-zensical/bin/python -m pip --quiet install 'zensical>=0.0.70' mkdocstrings-python
	@touch $@

$(VENV)/installed-%: pyproject.toml | $(BIN)/python
	$(PIP) install --editable '.[$*]'
	@touch $@ $(VENV)/installed
