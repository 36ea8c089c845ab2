# Turnmeter. `make help` lists what there is.

BUILD ?= build
CC ?= cc
MUSL_CC ?= musl-gcc
PREFIX := $(BUILD)/prefix
VERSION := $(shell cat VERSION)
OPT ?= -O2 -g
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla
WERROR ?=
SANITIZE ?=
FORTIFY ?= -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2

override CPPFLAGS += -D_GNU_SOURCE -DTURNMETER_VERSION='"$(VERSION)"' -I. $(FORTIFY)
override CFLAGS += -std=c17 $(OPT) $(WARN) $(WERROR) $(SANITIZE) -MMD -MP -fstack-protector-strong
override LDFLAGS += $(SANITIZE)

PROGRAMS := mockllm tmtool launcher collector agent-c-dynamic
BINARIES := $(addprefix $(PREFIX)/bin/,$(PROGRAMS))

.DEFAULT_GOAL := all

# ---- sources: one folder a program; main.c is the program, the rest is linked into its tests too
objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard $(1)))
static_objects = $(patsubst %.c,$(BUILD)/static/%.o,$(1))
COMMON := $(call objects,common/*.c)
MOCKLLM := $(call objects,mockllm/*.c)
COLLECTOR := $(call objects,collector/*.c)
AGENT_C := $(call objects,agent/c/*.c)
LAUNCHER := $(call static_objects,$(wildcard collector/launcher/*.c) common/descriptors.c common/error.c common/loop.c)
# The floor shares the C agent's text of histories; its sockets, parser and tools are its own.
FLOOR := $(call static_objects,$(wildcard agent/floor/*.c) $(addprefix agent/c/,chain.c history.c escape.c) $(addprefix common/,buf.c error.c number.c))
TMTOOL := $(call static_objects,$(wildcard mockllm/tmtool/*.c))

MOCKLLM_LIBS := -lmicrohttpd -ljansson -lmd -lm -lpthread
COLLECTOR_LIBS := -lcurl -ljansson -lmd -lm
AGENT_C_LIBS := -lcurl -ljansson -lz -lm

## all: build every program of ours into build/prefix
.PHONY: all binaries
all: binaries static floor js
binaries: $(BINARIES)

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# Static programs that must start fast and anywhere: musl, or STATIC_CC="gcc" for glibc.
STATIC_CC ?= $(MUSL_CC)
$(BUILD)/static/%.o: %.c
	@mkdir -p $(@D)
	$(STATIC_CC) $(CPPFLAGS) -std=c17 -Os -g $(WARN) $(WERROR) -MMD -MP -c -o $@ $<

$(PREFIX)/bin/mockllm: $(MOCKLLM) $(COMMON)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(MOCKLLM_LIBS)

# the page is part of the object (.incbin), which -MMD does not see
$(BUILD)/obj/collector/report_html.o: $(wildcard collector/page/*.html collector/page/*.css collector/page/*.js)

# What plot.js is made by: a copy of the page's package in build, so that the tree holds no node_modules.
$(BUILD)/page/plot.js: $(addprefix collector/page/,package-lock.json package.json plot.mjs bundle.mjs)
	@mkdir -p $(@D)
	@cp $^ $(@D)
	npm ci --prefix $(@D) --silent --ignore-scripts
	cd $(@D) && node bundle.mjs plot.js

## page-bundle: make collector/page/plot.js again from the packages in its lock file (npm)
.PHONY: page-bundle
page-bundle: $(BUILD)/page/plot.js
	cp $< collector/page/plot.js

$(PREFIX)/bin/collector: $(COLLECTOR) $(COMMON)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(COLLECTOR_LIBS)

# What is shipped is measured, so it is stripped; a sanitizer wants its symbols.
$(PREFIX)/bin/agent-c-dynamic: $(AGENT_C) $(COMMON)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $(if $(SANITIZE),,-s) -Wl,--as-needed -o $@ $^ $(AGENT_C_LIBS)

# ---- the C agent, static: agent-c with TLS, gzip and IPv6, agent-c-min with HTTP alone. Their libraries come from
# Debian's source packages. STATIC_LIBS=DIR takes those that scripts/static-libs.sh has put into DIR/full and DIR/min;
# STATIC_HOST=aarch64-linux-gnu with a STATIC_CC for it builds for another machine.
STATIC_HOST ?=
ifndef STATIC_LIBS
STATIC_LIBS := $(BUILD)/static-libs
$(STATIC_LIBS)/%/.made: scripts/static-libs.sh | $(STATIC_LIBS)/.tools
	rm -rf $(@D)
	CC="$(STATIC_CC)" HOST=$(STATIC_HOST) $< $* $(@D)
$(STATIC_LIBS)/.tools: scripts/deps.sh
	@$< static
	@mkdir -p $(@D) && touch $@
else
$(STATIC_LIBS)/%/.made:
	@echo "STATIC_LIBS: '$@' is missing: it must be a folder made by scripts/static-libs.sh $* $(@D)" >&2; exit 1
endif
.PHONY: static-libs
static-libs: $(STATIC_LIBS)/full/.made $(STATIC_LIBS)/min/.made

AGENT_C_SOURCES := $(wildcard agent/c/*.c common/*.c)
AGENT_C_FULL := $(AGENT_C_SOURCES:%.c=$(BUILD)/agent-c-full/%.o)
AGENT_C_MIN := $(AGENT_C_SOURCES:%.c=$(BUILD)/agent-c-min/%.o)
AGENT_C_STATIC := -std=c17 $(WARN) $(WERROR) -MMD -MP -DCURL_STATICLIB -fPIE -ffunction-sections -fdata-sections \
	-fno-asynchronous-unwind-tables
AGENT_C_FULL_FLAGS := -O2 -fstack-protector-strong
AGENT_C_MIN_FLAGS := -Os -DAGENT_C_NO_TLS -DAGENT_C_NO_GZIP

$(BUILD)/agent-c-full/%.o: %.c $(STATIC_LIBS)/full/.made
	@mkdir -p $(@D)
	$(STATIC_CC) $(CPPFLAGS) -isystem $(STATIC_LIBS)/full/include $(AGENT_C_STATIC) $(AGENT_C_FULL_FLAGS) -c -o $@ $<

$(BUILD)/agent-c-min/%.o: %.c $(STATIC_LIBS)/min/.made
	@mkdir -p $(@D)
	$(STATIC_CC) $(CPPFLAGS) -isystem $(STATIC_LIBS)/min/include $(AGENT_C_STATIC) $(AGENT_C_MIN_FLAGS) -c -o $@ $<

# The start file of a static PIE stands beside the one for other programs; musl's compiler wrapper does not know it.
START_FILES = $(dir $(shell $(STATIC_CC) -\#\#\# -x c /dev/null 2>&1 | grep -o '/[^ "]*/Scrt1\.o'))
GCC_FILE = $(shell $(STATIC_CC) -print-file-name=$(1))
STATIC_PIE := -static -nostartfiles -s -Wl,-pie,--no-dynamic-linker,-z,text,-z,relro,-z,now,-z,noexecstack,--gc-sections
link_static_pie = $(STATIC_CC) $(STATIC_PIE) -o $@ $(START_FILES)rcrt1.o $(START_FILES)crti.o $(call GCC_FILE,crtbeginS.o) \
	$(filter %.o,$^) $(1) -lm $(call GCC_FILE,crtendS.o) $(START_FILES)crtn.o

$(PREFIX)/bin/agent-c: $(AGENT_C_FULL)
	@mkdir -p $(@D)
	$(call link_static_pie,-L$(STATIC_LIBS)/full/lib -lcurl -ljansson -lmbedtls -lmbedx509 -lmbedcrypto -lz)

$(PREFIX)/bin/agent-c-min: $(AGENT_C_MIN)
	@mkdir -p $(@D)
	$(call link_static_pie,-L$(STATIC_LIBS)/min/lib -ljansson)

## static: build the C agent as static programs, agent-c and agent-c-min, with their libraries
.PHONY: static
static: $(PREFIX)/bin/agent-c $(PREFIX)/bin/agent-c-min

$(PREFIX)/bin/launcher: $(LAUNCHER)
	@mkdir -p $(@D)
	$(STATIC_CC) -static -o $@ $^

$(PREFIX)/bin/tmtool: $(TMTOOL)
	@mkdir -p $(@D)
	$(STATIC_CC) -static -s -o $@ $^

$(PREFIX)/bin/agent-floor: $(FLOOR)
	@mkdir -p $(@D)
	$(STATIC_CC) -static -s -o $@ $^

## floor: build the yardstick, the loop on raw sockets
.PHONY: floor
floor: $(PREFIX)/bin/agent-floor

# ---- agents side by side, without the collector
$(BUILD)/bench/stamp: $(call static_objects,tests/bench/stamp.c)
	@mkdir -p $(@D)
	$(STATIC_CC) -static -s -o $@ $^

## bench-agents: native agents side by side, ratios as JSON lines (BENCH="--agents c,floor --cells steady:100 --blocks 7")
BENCH ?= --cells one:1,steady:1,steady:10,steady:100,steady:500 --musts tests/bench/musts.json
.PHONY: bench-agents
bench-agents: binaries floor rust $(BUILD)/bench/stamp
	@tests/bench/agents.py --prefix $(PREFIX) --stamp $(BUILD)/bench/stamp $(BENCH)

# ---- Rust: the agent, built in a Debian 13 stage (agent/rust/README.md)
RUST_ARCH ?= $(if $(filter aarch64,$(shell uname -m)),arm64,amd64)
RUST_STAGE ?= $(BUILD)/rust-stage-$(RUST_ARCH)
RUST_SOURCES := agent/rust/Cargo.toml agent/rust/packages.txt scripts/rust-stage.sh $(wildcard agent/rust/src/*.rs)
$(PREFIX)/bin/agent-rust: $(RUST_SOURCES)
	@scripts/deps.sh rust
	scripts/rust-stage.sh build $(RUST_STAGE) $(RUST_ARCH) $@

## rust: build the Rust agent into build/prefix (as root: its Debian 13 stage is a chroot)
.PHONY: rust rust-test
rust: $(PREFIX)/bin/agent-rust

## rust-test: run the Rust agent's unit tests
rust-test:
	@scripts/deps.sh rust
	@scripts/rust-stage.sh test $(RUST_STAGE) $(RUST_ARCH)

# ---- JavaScript: the agents, and the runtimes they are measured on (RUNTIME_CPU=arm64 for another machine)
.PHONY: js
js: $(patsubst agent/js/%,$(PREFIX)/js/%,$(wildcard agent/js/*.mjs))
$(PREFIX)/js/%.mjs: agent/js/%.mjs
	@mkdir -p $(@D)
	cp $< $@

RUNTIME_CPU ?= $(if $(filter aarch64,$(shell uname -m)),arm64,x64)
RUNTIMES_STAMP := $(PREFIX)/runtimes/.stamp-$(RUNTIME_CPU)
$(RUNTIMES_STAMP): agent/js/runtimes/package-lock.json scripts/runtimes.sh
	@rm -f $(@D)/.stamp-*
	scripts/runtimes.sh $(@D) $(RUNTIME_CPU)
	@touch $@

## runtimes: fetch the pinned Node.js, Bun and Deno into build/prefix/runtimes
.PHONY: runtimes
runtimes: $(RUNTIMES_STAMP)

PLAN ?= configs/quick.json
## doctor: is this machine fit to measure on, and is all there that PLAN needs? (docs/doctor.md)
.PHONY: doctor
doctor:
	@scripts/deps.sh build
	@$(MAKE) --no-print-directory -s $(PREFIX)/bin/collector
	@$(PREFIX)/bin/collector doctor '$(PLAN)'

# The collector reads TTFT_MS= TOKENS_PER_S= MEMORY= CPU_QUOTA= and the rest from its environment, where make puts what its
# command line says.
## bench: play a plan without containers (PLAN= CONTENDERS= SESSIONS= SCENARIOS= REPETITIONS= TTFT_MS= TOKENS_PER_S= MEMORY= CPU_QUOTA= OUT=)
CONTENDERS ?=
comma := ,
BENCH_NAMES = $(or $(subst $(comma), ,$(CONTENDERS)),$(subst $(comma), ,$(shell scripts/plan.sh '$(PLAN)' contenders 2>/dev/null)))
# what contenders of these names need; a manifest of one's own may name any program of ours
NEEDS_c := $(PREFIX)/bin/agent-c
NEEDS_c-min := $(PREFIX)/bin/agent-c-min
NEEDS_node := runtimes
NEEDS_node-cluster := runtimes
NEEDS_node-http := runtimes
NEEDS_bun := runtimes
NEEDS_deno := runtimes
NEEDS_rust-mt := rust
NEEDS_rust-st := rust
BENCH_NEEDS = $(sort $(foreach n,$(BENCH_NAMES),$(if $(filter %.json,$(n)),static runtimes,$(NEEDS_$(n)))))
BENCH_RUN = $(PREFIX)/bin/collector run '$(PLAN)' --contenders='$(CONTENDERS)' --sessions='$(SESSIONS)' \
	--scenarios='$(SCENARIOS)' --repetitions='$(REPETITIONS)' $(if $(OUT),--out '$(OUT)')
# What is wrong with the plan or a setting is told before minutes of building.
.PHONY: bench
bench:
	@if [ -n '$(CONTENDER)' ]; then echo 'make bench: CONTENDER=$(CONTENDER): is for make up; here: CONTENDERS=c,$(CONTENDER)' >&2; exit 2; fi
	@if [ -n '$(RESUME)' ]; then echo 'make bench: RESUME=$(RESUME): is for make up; here: $(PREFIX)/bin/collector run --resume results/$(RESUME)' >&2; exit 2; fi
	@scripts/deps.sh build
	@$(MAKE) --no-print-directory -s $(PREFIX)/bin/collector
	@$(BENCH_RUN) --dry-run >/dev/null
	@$(MAKE) --no-print-directory binaries floor js $(BENCH_NEEDS)
	@$(BENCH_RUN)

# ---- unit tests: tests/unit/AREA/test_*.c, each a program linked with the area's objects
AREA_common := $(COMMON)
AREA_mockllm := $(filter-out %/main.o,$(MOCKLLM)) $(COMMON)
AREA_collector := $(filter-out %/main.o,$(COLLECTOR)) $(COMMON)
AREA_agent-c := $(filter-out %/main.o,$(AGENT_C)) $(COMMON)
AREA_launcher := $(filter-out %/main.o,$(call objects,collector/launcher/*.c)) $(COMMON)
UNIT_SOURCES := $(filter-out $(UNIT_LEFT_OUT),$(wildcard tests/unit/*/test_*.c))
UNIT_TESTS := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(UNIT_SOURCES))

.SECONDEXPANSION:
$(BUILD)/unit/%: $(BUILD)/obj/tests/unit/%.o $$(AREA_$$(firstword $$(subst /, ,$$*)))
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(COLLECTOR_LIBS) $(MOCKLLM_LIBS) -lz

## unit: run the unit tests (cmocka)
.PHONY: unit
unit: $(UNIT_TESTS)
	@status=0; for t in $(UNIT_TESTS); do echo "== $$t"; $(EMULATOR) $$t || status=1; done; exit $$status

# ---- checks
BATS := $(wildcard tests/*.bats)
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer

## deps: install the Debian packages that building, testing and linting need (as root)
.PHONY: deps
deps:
	@scripts/deps.sh build static test browser lint rust

## check: build and run every test; ends in "N passed, N failed"
.PHONY: check
check:
	@scripts/deps.sh build static test browser rust
	@$(MAKE) --no-print-directory all runtimes unit-programs
	-@$(MAKE) --no-print-directory rust # where it cannot be built, its tests fail and the rest is tested
	@BUILD=$(BUILD) scripts/check.sh \
		"unit=$(MAKE) --no-print-directory unit" \
		"rust-unit=$(MAKE) --no-print-directory rust-test" \
		$(foreach b,$(BATS),"$(basename $(notdir $(b)))=bats --tap $(b)") \
		"conformance=$(MAKE) --no-print-directory conformance" \
		"clients=$(MAKE) --no-print-directory clients" \
		"schema=$(MAKE) --no-print-directory schema-check" \
		"report-page=$(MAKE) --no-print-directory report-test"

.PHONY: unit-programs
unit-programs: $(UNIT_TESTS)

## conformance: the contract's cases on each agent (AGENTS=c,node CASE=part of a name)
AGENTS ?= c,c-min,c-dynamic,rust-mt,rust-st,node,node-http,node-cluster,bun,deno
CASE ?=
.PHONY: conformance
conformance: $(PREFIX)/bin/agent-c-dynamic static js runtimes $(if $(findstring rust-,$(AGENTS)),rust)
	@$(PREFIX)/runtimes/node tests/conformance/run.mjs --prefix $(PREFIX) --agents $(AGENTS) --case '$(CASE)'

## clients: official clients (openai, ai, langchain) play checked sessions against the mock
.PHONY: clients
clients: $(PREFIX)/bin/mockllm $(PREFIX)/bin/tmtool runtimes tests/clients/node_modules/.package-lock.json
	@BUILD=$(BUILD) $(PREFIX)/runtimes/node --test --test-reporter=tap tests/clients/clients.test.mjs
tests/clients/node_modules/.package-lock.json: tests/clients/package-lock.json
	npm ci --prefix tests/clients --silent --ignore-scripts
	@touch $@

## report-test: report.html in Debian's Chromium: figures, filters, keyboard, hostile names, axe
REPORT_MODULES := tests/report/node_modules/.package-lock.json
.PHONY: report-test
report-test: $(PREFIX)/bin/collector runtimes $(REPORT_MODULES) $(BUILD)/page/plot.js
	@scripts/deps.sh browser
	@BUILD=$(BUILD) $(PREFIX)/runtimes/node --test --test-reporter=tap tests/report/report.test.mjs
$(REPORT_MODULES): tests/report/package-lock.json
	npm ci --prefix tests/report --silent --ignore-scripts
	@touch $@

## report-sample: docs/sample-report.html and the README's picture of it, from RESULTS=results/quick-…
.PHONY: report-sample
report-sample: $(PREFIX)/bin/collector runtimes $(REPORT_MODULES)
	@scripts/deps.sh browser
	@BUILD=$(BUILD) RESULTS='$(RESULTS)' $(PREFIX)/runtimes/node tests/report/picture.mjs

## bench-report: load and filter times of a page of 10,000 runs, ends in one JSON line, fails on a missed bound
.PHONY: bench-report
bench-report: $(PREFIX)/bin/collector runtimes $(REPORT_MODULES)
	@scripts/deps.sh browser
	@BUILD=$(BUILD) $(PREFIX)/runtimes/node tests/report/bench.mjs

## schemas: write configs/schema/ anew from the collector's tables
.PHONY: schemas schema-check
schemas: $(PREFIX)/bin/collector
	@for name in plan scenario manifest run summary; do \
		$< schema $$name >configs/schema/$$name.schema.json.new && \
		mv configs/schema/$$name.schema.json.new configs/schema/$$name.schema.json || exit 1; done

## schema-check: the schemas are the collector's, and a validator from npm judges files as the collector does
schema-check: $(PREFIX)/bin/collector runtimes tests/schema/node_modules/.package-lock.json
	@BUILD=$(BUILD) $(PREFIX)/runtimes/node --test --test-reporter=tap tests/schema/schema.test.mjs
tests/schema/node_modules/.package-lock.json: tests/schema/package-lock.json
	npm ci --prefix tests/schema --silent --ignore-scripts
	@touch $@

## lint: formatting, clang-tidy, shellcheck, and a build with warnings as errors (gcc and clang)
.PHONY: lint
lint:
	@scripts/deps.sh build test lint
	@scripts/lint.sh

## asan: the unit tests under AddressSanitizer and UBSan
.PHONY: asan
asan:
	@scripts/deps.sh build test
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/asan SANITIZE="$(SANITIZERS)" FORTIFY= OPT="-O1 -g" unit

# Left out: the launcher's, which needs system calls that QEMU's user mode has not; `make vm-check ARCH=arm64` runs it.
ARM64 := $(abspath $(BUILD)/arm64)
MAKE_ARM64 = $(MAKE) --no-print-directory BUILD=$(ARM64) CC="aarch64-linux-gnu-gcc --sysroot=$(ARM64)/sysroot" \
	UNIT_LEFT_OUT=$(1)

## unit-arm64: the unit tests built for aarch64, run by QEMU's user mode
.PHONY: unit-arm64 arm64-sysroot launcher-test-arm64
unit-arm64: arm64-sysroot $(ARM64)/plain_signals
	@$(call MAKE_ARM64,tests/unit/launcher/%) -j"$$(nproc)" unit-programs
	@$(call MAKE_ARM64,tests/unit/launcher/%) EMULATOR="$(ARM64)/plain_signals qemu-aarch64 -E UNDER_QEMU=1 -L $(ARM64)/sysroot" unit
$(ARM64)/plain_signals: tests/unit/plain_signals.c
	@mkdir -p $(@D)
	$(CC) -D_GNU_SOURCE $(CFLAGS) -o $@ $<
launcher-test-arm64: arm64-sysroot
	@$(call MAKE_ARM64) -s $(ARM64)/unit/launcher/test_launcher
arm64-sysroot:
	@scripts/deps.sh arm64
	@scripts/sysroot.sh arm64 $(ARM64)/sysroot

# ---- fuzzing: tests/fuzz/fuzz_*.c, each a program of libFuzzer's, built by clang from sources
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_CHECK := mockllm/escape.c mockllm/fault.c mockllm/hash.c mockllm/scan.c mockllm/script.c

$(BUILD)/fuzz/fuzz_check: tests/fuzz/fuzz_check.c mockllm/check.c $(FUZZ_CHECK) $(wildcard common/*.c)
	@mkdir -p $(@D)
	clang -D_GNU_SOURCE -I. -std=c17 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
		-o $@ tests/fuzz/fuzz_check.c $(FUZZ_CHECK) $(wildcard common/*.c) -ljansson -lm -lpthread

# sources: the reports, and what they stand on
FUZZ_RESULTS := $(addprefix collector/,cells.c digest.c escape.c figures.c hypotheses.c judge.c \
	record.c report_csv.c report_html.c report_text.c results.c samples.c stats.c summary.c summary_view.c table.c)

$(BUILD)/fuzz/fuzz_results: tests/fuzz/fuzz_results.c $(FUZZ_RESULTS) $(wildcard common/*.c)
	@mkdir -p $(@D)
	clang -D_GNU_SOURCE -DTURNMETER_VERSION='"$(VERSION)"' -I. -std=c17 -O1 -g -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=undefined -o $@ $^ -ljansson -lmd -lm -lpthread

FUZZ_AGENT := $(addprefix agent/c/,answer.c chain.c chunk.c command.c escape.c history.c http.c report.c retry.c server_error.c sse.c target.c)

$(BUILD)/fuzz/fuzz_agent_%: tests/fuzz/fuzz_agent_%.c $(FUZZ_AGENT) $(wildcard common/*.c)
	@mkdir -p $(@D)
	clang -D_GNU_SOURCE -I. -std=c17 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
		-o $@ $^ -ljansson -lm -lpthread

## fuzz: feed the parsers of outside bytes with nonsense, FUZZ_SECONDS=60 each (clang)
.PHONY: fuzz
fuzz: $(FUZZ_TARGETS)
	@for t in $(FUZZ_TARGETS); do mkdir -p $$t.corpus && \
		$$t -max_total_time=$(FUZZ_SECONDS) -timeout=10 -artifact_prefix=$$t. $$t.corpus || exit 1; done

# ---- the mock under load
$(BUILD)/bench/bench-mock: $(call objects,mockllm/bench/*.c) $(filter-out %/main.o,$(MOCKLLM)) $(BUILD)/obj/collector/mock_client.o $(BUILD)/obj/collector/machine.o $(BUILD)/obj/collector/digest.o $(COMMON)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(MOCKLLM_LIBS) -lcurl

## bench-mock: lateness and cost of the mock, ends in one JSON line, fails on a missed bound (STREAMS=2000)
STREAMS ?= 2000
.PHONY: bench-mock
bench-mock: $(BUILD)/bench/bench-mock $(PREFIX)/bin/mockllm $(PREFIX)/bin/tmtool
	@$< --mock $(PREFIX)/bin/mockllm --tool $(PREFIX)/bin/tmtool --streams $(STREAMS)

# ---- containers (docs/containers.md)
## up: play a plan in containers; installs and starts Docker if need be (settings as of bench but OUT, and CONTENDER=MANIFEST of one's own)
.PHONY: up
up:
	@BUILD=$(BUILD) scripts/up.sh

## down: remove the containers, stop the Docker engine if `make up` started it
.PHONY: down
down:
	@scripts/down.sh

## setup: install the Docker engine and compose from Debian's packages, start the engine (as root)
.PHONY: setup
setup:
	@scripts/setup.sh
	@scripts/engine.sh start

## unsetup: remove what `make setup` or `make up` installed (as root)
.PHONY: unsetup
unsetup:
	@scripts/down.sh --images
	@scripts/setup.sh --undo

## base-image: make the images' base from the Debian mirror, where no container registry answers
.PHONY: base-image
base-image:
	@scripts/base-image.sh

## images-for-this-machine: build the container images, without playing a plan
.PHONY: images-for-this-machine
images-for-this-machine:
	@BUILD=$(BUILD) scripts/up.sh --images-only

## images: build all images for linux/amd64 and linux/arm64 (PUSH=1 REGISTRY=registry.example/you/ to push them)
.PHONY: images
images:
	@scripts/deps.sh images
	@scripts/images.sh $(if $(PUSH),--push)

## images-check: look at what `make images` has built: machine of every program, lists of manifests in a registry
.PHONY: images-check
images-check:
	@scripts/deps.sh images registry
	@scripts/images-check.sh

## vm-check: every contender in containers in a virtual machine with cgroup v2, ARCH=amd64 or arm64 (as root)
.PHONY: vm-check
vm-check:
	@scripts/deps.sh vm $(filter arm64,$(ARCH))
	@BUILD=$(BUILD) scripts/vm/check.sh $(or $(ARCH),amd64)

## check-machines: all that takes an emulated machine or the images of both platforms; ends in "N passed, N failed" (as root)
.PHONY: check-machines images-of-both
check-machines:
	@scripts/deps.sh build arm64 vm images registry
	@BUILD=$(BUILD) scripts/check.sh \
		"vm-amd64=$(MAKE) --no-print-directory vm-check ARCH=amd64" \
		"unit-arm64=$(MAKE) --no-print-directory unit-arm64" \
		"vm-arm64=$(MAKE) --no-print-directory vm-check ARCH=arm64" \
		"images-check=$(MAKE) --no-print-directory images-of-both"
images-of-both:
	@$(MAKE) --no-print-directory images
	@$(MAKE) --no-print-directory images-check

## clean: remove what was built; with IMAGES=1 the containers, images and engine data too
.PHONY: clean
clean:
	rm -rf $(BUILD)
	$(if $(IMAGES),@scripts/down.sh --images)

## help: this list
.PHONY: help
help:
	@sed -n 's/^## \([^:]*\): \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

.SECONDARY:
-include $(shell find $(BUILD)/obj $(BUILD)/static $(BUILD)/agent-c-full $(BUILD)/agent-c-min -name '*.d' 2>/dev/null)
