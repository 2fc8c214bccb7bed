# Each target does what it needs first.
SHELL := /bin/bash
.PHONY: setup build demo test lint tidy format bench campaign coverage asan tsan wheel clean help

help:
	@echo 'setup     Debian packages, .venv and a development install (scripts/setup.sh)'
	@echo 'build     the release build in build/release'
	@echo 'demo      bring MiniLM-L6-v2 up on npu; the report is build/demo/report.html'
	@echo 'test      all tests        lint    check formatting, style and types'
	@echo 'format    repair formatting    tidy    clang-tidy, slower'
	@echo 'bench     benchmarks, on a quiet machine'
	@echo 'campaign  long random searches    coverage    line coverage'
	@echo 'asan      tests under address and undefined-behaviour sanitizers'
	@echo 'tsan      the runtime under the thread sanitizer'
	@echo 'wheel     build a wheel and test it without LLVM'
	@echo 'clean     remove build/ and dist/'

setup:
	scripts/setup.sh

.venv/.setup: scripts/setup.sh requirements.txt constraints.txt
	scripts/setup.sh

build: .venv/.setup
	scripts/build.sh release

demo: build
	scripts/demo.sh

test: build
	scripts/test.sh

lint: .venv/.setup
	scripts/lint.sh

tidy: build
	scripts/tidy.sh

format: .venv/.setup
	scripts/lint.sh --fix

bench: build
	scripts/bench.sh

campaign: build
	scripts/campaign.sh

coverage: .venv/.setup
	scripts/coverage.sh

asan tsan: .venv/.setup
	scripts/sanitize.sh $@

wheel: .venv/.setup
	scripts/test-wheel.sh

clean:
	rm -rf build dist
