# SPDX-License-Identifier: BSD-3-Clause
# `make` builds and installs Weft into build/prefix; `make help` lists all targets.
# Missing build tools are downloaded into build/tools (tools/setup/setup.py).
PRESET ?= release
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
TEST_JOBS ?= $(shell expr $(JOBS) + 3)# ranks at once: most tests wait for time to pass
CMAKE_ARGS ?=
CTEST_ARGS ?=

TOOLS  := build/tools
BUILD  := build/$(PRESET)
STAGE  := $(if $(filter release,$(PRESET)),build/prefix,$(BUILD)/prefix)# the prefix that tests and `make wheel` use
PREFIX := $(STAGE)# make install PREFIX=/opt/weft also installs there
ENV    := PATH="$(CURDIR)/$(TOOLS)/bin:$$PATH"
READY  := $(TOOLS)/ready# one stamp file per set of downloads
SETUP  := tools/setup/setup.py tools/setup/packages.py tools/setup/spec.txt tools/setup/cuda.txt tools/setup/python.txt tools/setup/cli.txt
CTEST  := $(ENV) ctest --test-dir $(BUILD) --output-on-failure -j $(TEST_JOBS) $(CTEST_ARGS)

# The rest of a command line of ctest: with RECORD=1 the run becomes a row of test/results/runs.csv.
record = $(if $(RECORD),--output-junit "$(CURDIR)/$(BUILD)/$(1).xml"; status=$$?; \
	python3 tools/record_run.py $(BUILD)/$(1).xml --suite $(1) --preset $(PRESET) && exit $$status)

.PHONY: all help demo test nightly gpu-test gpu-bench bench-host bench-compat install configure tests clean format lint wheel wheels sdist docs
.NOTPARALLEL:

# The prefix that the user names, absolute; empty: none. A shell does not expand the ~ of PREFIX=~/weft.
OTHER := $(if $(filter-out $(STAGE) $(abspath $(STAGE)),$(PREFIX))$(DESTDIR),$(abspath $(patsubst ~/%,$(HOME)/%,$(PREFIX))))

all: install

help:
	@echo "make            build the library, mpicc, mpiexec and weft into build/prefix"
	@echo "make install PREFIX=/opt/weft   the same, also into that folder (DESTDIR=... before it for packages)"
	@echo "make demo       build the library, mpiexec and the Jacobi solver, and run it on all GPUs, or on the cores without GPUs"
	@echo "make test       run the tests that need no GPU (minutes)"
	@echo "make nightly    run the same and the long tests"
	@echo "make gpu-test   run the tests that need GPUs;  make gpu-bench  run the GPU benchmarks"
	@echo "                VISIBILITY=per_task: each rank sees its own GPU only, as with srun --gpus-per-task=1"
	@echo "make bench-host compare host performance with Open MPI and MPICH;  make bench-compat  on their own binaries"
	@echo "make docs       build the documentation site in build/docs"
	@echo "make wheel      build a wheel in dist/;  make wheels  also a wheel of mpi4py for it;  make sdist  a source distribution"
	@echo "make format | lint | clean"
	@echo "variables: PRESET=release|dev|asan-ubsan|tsan|coverage JOBS=n CMAKE_ARGS=... CTEST_ARGS=..."
	@echo "           RECORD=1: tests also write a row of test/results/runs.csv"

$(READY)-cli: DOWNLOADS := --cli
$(READY)-tests: DOWNLOADS := --tests
$(READY) $(READY)-cli $(READY)-tests: $(SETUP)
	@command -v python3 >/dev/null || { echo "Weft's build needs python3 >= 3.9: install it (Debian, Ubuntu: python3)"; exit 1; }
	@python3 tools/setup/setup.py --tools $(TOOLS) $(DOWNLOADS) --stamp $@

# GPU generations of the kernels: those of this machine. Without a GPU, what is installed has all, demo and tests have none.
# A build that has been installed keeps all.
KERNELS := auto
ifeq ($(shell grep -s '^WEFT_CUDA_ARCHITECTURES:[A-Z]*=[^n]' $(BUILD)/CMakeCache.txt),)
demo tests test nightly: KERNELS := native
endif
wheel wheels: KERNELS := all

configure: $(READY)
	@$(ENV) cmake --preset $(PRESET) --log-level=NOTICE -DWEFT_CUDA_ARCHITECTURES=$(KERNELS) -DWEFT_TESTS=$$(test -e $(READY)-tests && echo ON || echo OFF) $(CMAKE_ARGS)

install: $(READY)-cli configure
	@$(ENV) cmake --build $(BUILD) -j $(JOBS)
	@$(ENV) env -u DESTDIR cmake --install $(BUILD) >$(BUILD)/install.log || { cat $(BUILD)/install.log; exit 1; }
	@$(if $(OTHER),$(ENV) cmake --install $(BUILD) --prefix "$(OTHER)" >$(BUILD)/install.log || { cat $(BUILD)/install.log; exit 1; })
	@echo "Weft is in $(DESTDIR)$(or $(OTHER),$(STAGE)): put $(DESTDIR)$(or $(OTHER),$(CURDIR)/$(STAGE))/bin on your PATH"

tests: $(READY)-tests install
	@$(ENV) cmake --build $(BUILD) -j $(JOBS) --target weft_tests

demo: configure
	@$(ENV) cmake --build $(BUILD) -j $(JOBS) --target mpi_abi mpiexec jacobi
	@$(ENV) env -u DESTDIR cmake --install $(BUILD) --component demo >$(BUILD)/install.log || { cat $(BUILD)/install.log; exit 1; }
	@sh examples/jacobi/demo.sh $(STAGE)

test: tests
	@$(CTEST) -LE "gpu|nightly" $(call record,quick)

nightly: tests
	@$(CTEST) -LE "gpu" $(call record,nightly)

gpu-test: tests
	@GPU_VISIBILITY=$(VISIBILITY) $(CTEST) -L gpu -j 1 $(call record,gpu)

gpu-bench: install
	@PEERS="$(PEERS)" GPU_VISIBILITY=$(VISIBILITY) sh bench/gpu.sh $(STAGE)

bench-host: install
	@python3 bench/host.py

bench-compat: install
	@python3 bench/compat_host.py

docs:
	@python3 tools/setup/setup.py --tools $(TOOLS) --docs --no-cuda
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=$(TOOLS)/mkdocs python3 -m mkdocs build --strict -q
	@echo "The documentation is in build/docs/index.html"

wheel: install
	@$(ENV) python3 tools/setup/wheel.py

sdist:
	@$(ENV) python3 tools/setup/wheel.py --sdist

wheels: wheel
	@$(ENV) python3 tools/setup/wheel.py --mpi4py

format:
	@python3 tools/format.py

lint:
	@python3 tools/format.py --check
	@python3 tools/check_layers.py
	@python3 tools/check_class_sizes.py
	@python3 tools/check_state.py
	@python3 tools/check_groups.py
	@python3 tools/check_sources.py
	@python3 tools/check_words.py
	@python3 tools/docs/blocks.py
	@python3 tools/docs/prose.py

clean:
	rm -rf build dist
