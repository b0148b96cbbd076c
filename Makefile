# SPDX-License-Identifier: BSD-3-Clause
# Weft in one word: `make` leaves a working prefix in build/prefix; `make help` lists the rest.
# The tools that this machine lacks are fetched into build/tools (tools/setup/setup.py).
PRESET ?= release
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
CMAKE_ARGS ?=
CTEST_ARGS ?=
CUDA12 ?=

TOOLS  := build/tools
BUILD  := build/$(PRESET)
PREFIX := $(if $(filter release,$(PRESET)),build/prefix,$(BUILD)/prefix)
ENV    := PATH="$(CURDIR)/$(TOOLS)/bin:$$PATH"
# Stamps differ by what was fetched.
OLDER  := $(if $(CUDA12),--cuda12)
READY  := $(TOOLS)/ready$(if $(CUDA12),-cuda12)
SETUP  := tools/setup/setup.py tools/setup/packages.py tools/setup/spec.txt tools/setup/cuda.txt tools/setup/cuda12.txt \
          tools/setup/python.txt
CTEST  := $(ENV) ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) $(CTEST_ARGS)

.PHONY: all help demo test nightly gpu-test gpu-bench bench-host install configure tests clean format lint wheel docs
.NOTPARALLEL:

all: install

help:
	@echo "make            the library, mpicc, mpiexec, weft in build/prefix"
	@echo "make demo       the Jacobi solver on all GPUs of this machine (on its cores, if it has none)"
	@echo "make test       every test that needs no GPU, in a few minutes"
	@echo "make nightly    those, and the long ones"
	@echo "make gpu-test   the tests that need GPUs;  make gpu-bench  the measurements that need GPUs"
	@echo "make bench-host host speed beside Open MPI and MPICH"
	@echo "make docs       the documents as a site in build/docs"
	@echo "make wheel      a wheel in dist/;  make format | lint | clean"
	@echo "variables: PRESET=release|dev|asan-ubsan|tsan|coverage JOBS=n CMAKE_ARGS=... CTEST_ARGS=..."
	@echo "           CUDA12=1: GPU kernels also for drivers older than 580"

$(READY): $(SETUP)
	@command -v python3 >/dev/null || { echo "Weft's build needs python3 >= 3.9: install it (Debian, Ubuntu: python3)"; exit 1; }
	@python3 tools/setup/setup.py --tools $(TOOLS) $(OLDER) --stamp $@

$(READY)-tests: $(SETUP)
	@command -v python3 >/dev/null || { echo "Weft's build needs python3 >= 3.9: install it (Debian, Ubuntu: python3)"; exit 1; }
	@python3 tools/setup/setup.py --tools $(TOOLS) --tests $(OLDER) --stamp $@

configure: $(READY)
	@$(ENV) cmake --preset $(PRESET) --log-level=NOTICE $(CMAKE_ARGS)

install: configure
	@$(ENV) cmake --build $(BUILD) -j $(JOBS)
	@$(ENV) cmake --install $(BUILD) >$(BUILD)/install.log || { cat $(BUILD)/install.log; exit 1; }
	@echo "Weft is in $(PREFIX): put $(CURDIR)/$(PREFIX)/bin on your PATH"

tests: $(READY)-tests install
	@$(ENV) cmake --build $(BUILD) -j $(JOBS) --target weft_tests

demo: install
	@sh examples/jacobi/demo.sh $(PREFIX)

test: tests
	@$(CTEST) -LE "gpu|nightly"

nightly: tests
	@$(CTEST) -LE "gpu"

gpu-test: tests
	@$(CTEST) -L gpu -j 1

gpu-bench: install
	@PEERS="$(PEERS)" sh bench/gpu.sh $(PREFIX)

bench-host: install
	@python3 bench/host.py

docs:
	@python3 tools/setup/setup.py --tools $(TOOLS) --docs --no-cuda
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=$(TOOLS)/mkdocs python3 -m mkdocs build --strict -q
	@echo "The documents are in build/docs/index.html"

wheel:  # with kernels for older drivers, whoever builds it
	@$(MAKE) --no-print-directory CUDA12=1 $(TOOLS)/ready-cuda12
	@python3 tools/setup/wheel.py

format:
	@python3 tools/format.py

lint:
	@python3 tools/format.py --check
	@python3 tools/check_layers.py
	@python3 tools/check_sources.py
	@python3 tools/docs/blocks.py

clean:
	rm -rf build dist
