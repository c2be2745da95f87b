# The few verbs of the project. `make demo` and `make test` work on a fresh machine with Rust, a C compiler, make
# and Python 3.10 or later: what else they need, they install below the target folder.

PYTHON ?= python3
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
export CARGO_TARGET_DIR := $(TARGET)

VENV := $(TARGET)/venv
WHEELS := $(TARGET)/wheels
S3S_FS := $(TARGET)/tools/s3s-fs-0.14.1.installed
CLIENTS := $(VENV)/requirements.installed
SPARKS := $(TARGET)/spark-3.5 $(TARGET)/spark-4.0
VERSITYGW := $(TARGET)/tools/bin/versitygw
HELM := $(TARGET)/tools/bin/helm
ACTIONLINT := $(TARGET)/tools/bin/actionlint
RELEASERS := $(VENV)/releasers.installed
ORC_TOOLS := $(TARGET)/tools/orc-tools-2.1.2-uber.jar
ORC_TOOLS_SHA256 := a68ad18cc3f1f3620b7b541d12c8460bf248459559c0bb71b36b731bb62bd7dd
JDBC_DRIVER := $(TARGET)/tools/flight-sql-jdbc-driver-18.3.0.jar
JDBC_DRIVER_SHA256 := 3f418b46c880e263558c5de669bdbede2c5d4375527ced116fb29f795b03704c
# Without Maven, tests that need these are skipped, but not in CI.
JARS := $(if $(CI)$(shell command -v mvn),$(ORC_TOOLS) $(JDBC_DRIVER))
MVN_COPY := mvn --quiet --batch-mode org.apache.maven.plugins:maven-dependency-plugin:3.11.0:copy
CARGO_FUZZ := $(TARGET)/tools/cargo-fuzz-0.13.2.installed
CARGO_DENY := $(TARGET)/tools/cargo-deny-0.20.2.installed
MDBOOK := $(TARGET)/tools/mdbook-0.5.4.installed
CORPUS := $(TARGET)/fuzz-corpus
# Examples that assert their results; `cargo test` builds them.
EXAMPLES := $(filter-out policies,$(basename $(notdir $(wildcard crates/*/examples/*.rs))))
MUSL = $(shell uname -m)-unknown-linux-musl
# What the tests in a browser and of the metrics need: Chromium, DuckDB-Wasm and promtool.
DEBIAN := $(TARGET)/tools/debian
BROWSER := $(DEBIAN)/chromium-headless-shell/unpacked $(TARGET)/browser/installed
PROMTOOL := $(DEBIAN)/prometheus/unpacked

# One process per core; the tests of a file share what they start.
PYTEST_PARALLEL := $(VENV)/bin/python -m pytest -c tests/pytest.ini --numprocesses $$(nproc) --dist loadfile

# Installs packages into the virtual environment, in an eighth of the time that pip takes for the clients.
UV := $(shell grep '^uv==' tests/requirements.txt)
UV_INSTALL := $(VENV)/bin/python -m uv pip install --quiet --no-cache --python $(VENV)/bin/python
# Installs the wheel of a folder.
install = $(UV_INSTALL) --no-deps --reinstall $(1)/stylobate-*.whl

.DEFAULT_GOAL := help
.PHONY: help demo test test-rust test-deep test-clients test-clients-all test-spark test-sql test-distributed image test-python test-matrix built installed wheel check advisories map docs bench-node bench-disk bench-cluster bench-cluster-sim bench-columns bench-python bench-write bench-orc bench-graphar bench-graphar-scale bench-store bench-sql bench-sql-distributed bench-micro soak kills cluster-faults fuzz release dist crates

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

# Without SQL, which takes as long to compile as all the rest, and graphs.
demo: ## The main job on built-in defaults, with a table of what it measured
	cargo build --profile demo --locked --package stylobate-cli --no-default-features
	$(TARGET)/demo/stylobate demo

test: test-rust test-clients test-python ## All tests: of the crates, with real clients, and of the Python package

test-rust: ## The tests and the examples of the crates
	$(PYTHON) tools/run_tests.py
	@for example in $(EXAMPLES); do echo $$example; $(TARGET)/debug/examples/$$example >/dev/null || exit 1; done

test-deep: ## The same with ten times as many random cases as usual, or with CASES=
	PROPTEST_CASES=$(or $(CASES),2560) $(PYTHON) tools/run_tests.py

test-clients: built $(CLIENTS) $(S3S_FS) $(JARS) ## boto3, pyarrow, Polars and DuckDB through a node; ORC files of ours read by others
	STYLOBATE_ORC_FILES=$(TARGET)/orc-files cargo test --quiet --workspace -- --ignored files_for_other_readers
	STYLOBATE_JDBC_DRIVER=$(JDBC_DRIVER) $(PYTEST_PARALLEL) --ignore tests/python --ignore tests/spark --ignore tests/browser --ignore tests/all_clients --ignore tests/cluster_faults tests

test-clients-all: $(VERSITYGW) $(BROWSER) $(PROMTOOL) $(HELM) $(ACTIONLINT) $(RELEASERS) ## The same with an S3 server that Go builds, pages in Chromium, and 17 clients as processes
	$(MAKE) test-clients
	$(VENV)/bin/python -m pytest -c tests/pytest.ini tests/browser tests/test_packaging.py
	$(PYTHON) tests/all_clients/install.py $(TARGET)/clients
	$(VENV)/bin/python -m pytest -c tests/pytest.ini tests/all_clients

test-spark: built $(CLIENTS) $(SPARKS:=/installed) ## Spark 3.5 and 4.0 through a node by S3A, with Delta Lake and Apache Iceberg; needs Java 17 and Maven
	STYLOBATE_SPARK="$(SPARKS)" $(VENV)/bin/python -m pytest -c tests/pytest.ini -s tests/spark

test-sql: release $(CLIENTS) ## All queries of TPC-H and TPC-DS at scale 1 by SQL, over Parquet and ORC, against DuckDB
	STYLOBATE_BIN=$(TARGET)/release/stylobate STYLOBATE_SQL_SCALE=1 $(VENV)/bin/python -m pytest -c tests/pytest.ini tests/test_sql_answers.py

# A build of its own: the engine has dependencies built with features that the wheel cannot have.
DISTRIBUTED := --package stylobate-cli --package stylobate-datafusion --package stylobate-server --features stylobate-cli/distributed
test-distributed: $(CLIENTS) ## SQL over workers and over the nodes of a cluster, against DuckDB, with nodes that are killed
	cargo clippy $(DISTRIBUTED) --all-targets -- -D warnings
	cargo build $(DISTRIBUTED) --bin stylobate --test distributed --test sql_cluster
	cargo test $(DISTRIBUTED) --test distributed --test sql_cluster
	$(VENV)/bin/python -m pytest -c tests/pytest.ini tests/test_sql_cluster.py

image: $(CLIENTS) ## The static binary of the container image, tried without a container; needs musl-gcc and root
	rustup target add $(MUSL)
	cargo build --config packaging/static.toml --profile static --locked --package stylobate-cli --bin stylobate --features distributed --target $(MUSL)
	STYLOBATE_BIN=$(TARGET)/$(MUSL)/static/stylobate STYLOBATE_STATIC=$(TARGET)/$(MUSL)/static/stylobate \
	  $(VENV)/bin/python -m pytest -c tests/pytest.ini tests/test_image.py

# ARCHES=x86_64 makes those of one architecture. With musl-gcc, the binary for this machine is that of `make image`.
dist: $(CLIENTS) $(RELEASERS) $(HELM) ## Build all release artifacts: wheels, static binaries, images, packages, a chart; needs Go and rustup
	$(VENV)/bin/python packaging/dist.py --target $(TARGET) --arches "$(or $(ARCHES),x86_64 aarch64)"

# Nothing is compiled: CI and the workspace's own builds have done that.
crates: ## The crates as crates.io would get them, packed in the order of their dependencies; asks the registry's index
	cargo publish --workspace --dry-run --no-verify --locked $(if $(CI),,--allow-dirty)

test-python: $(CLIENTS) $(S3S_FS) $(filter $(ORC_TOOLS),$(JARS)) ## The Python package, installed from its wheel
	@rm -f $(WHEELS)/tested/stylobate-*.whl
	$(VENV)/bin/maturin build --profile dev --features extension-module,tested --manifest-path python/Cargo.toml --out $(WHEELS)/tested
	@$(call install,$(WHEELS)/tested)
	$(PYTEST_PARALLEL) tests/python

# The same tests make an eighth of these files in `make test-python`, and leave out the largest.
test-matrix: installed ## 5,000 random Parquet and ORC files, read, filtered and written as pyarrow, DuckDB and Polars do
	STYLOBATE_MATRIX=all $(PYTEST_PARALLEL) $(addprefix tests/python/,$(addsuffix .py,test_generate test_large_strings test_matrix test_predicates test_round_trips test_write_matrix test_write_orc))

# Tests share one build, the one that `cargo test` makes; what is used and measured is optimised.
built:
	cargo build --workspace --tests

installed: wheel
	@$(call install,$(WHEELS))

wheel: $(CLIENTS) ## The wheel of the Python package
	@rm -f $(WHEELS)/stylobate-*.whl
	$(VENV)/bin/maturin build --release --manifest-path python/Cargo.toml --out $(WHEELS)

# With `tested`, dependencies have the features that the lints build them with, and are checked once.
check: $(CARGO_DENY) ## Format, lints, documentation, dependencies, the arrows between crates, links of documents
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --features stylobate-python/tested
	$(TARGET)/tools/bin/cargo-deny check bans licenses sources
	$(PYTHON) tools/check_architecture.py
	$(PYTHON) tools/check_docs.py

advisories: $(CARGO_DENY) ## Known advisories against dependencies; fetches the RustSec database
	$(TARGET)/tools/bin/cargo-deny check advisories

map: ## The first line of every source file; with ROOM=FOLDER, of those below a folder
	@$(PYTHON) tools/check_architecture.py --map $(ROOM)

docs: $(MDBOOK) ## The documentation as a site, in book below the target folder
	$(PYTHON) tools/check_docs.py
	$(TARGET)/tools/bin/mdbook build docs --dest-dir $(TARGET)/book

bench-node: release $(CLIENTS) ## A node against its peers; the queries of TPC-H through it
	$(VENV)/bin/python bench/node/run.py

bench-disk: release ## The cache where data is larger than memory, and its disk tier beside fio, nginx and cachey
	$(PYTHON) bench/disk/run.py

bench-cluster: release $(CLIENTS) ## Nodes as a cluster beside nodes without one and nginx; a join and a drain under load
	$(VENV)/bin/python bench/cluster/run.py

bench-columns: release $(CLIENTS) ## Scans beside pyarrow, the parquet crate, Polars and DuckDB
	cargo build --release --bin stylobate-bench-columns
	$(VENV)/bin/python bench/columns/run.py

bench-python: installed ## Reads from Python, by the wheel, beside pyarrow, Polars and DuckDB
	$(VENV)/bin/python bench/python/run.py

bench-write: release $(CLIENTS) ## Writing beside pyarrow, the parquet crate and tpchgen-cli
	cargo build --release --bin stylobate-bench-write
	$(VENV)/bin/python bench/write/run.py

bench-orc: installed ## ORC files, written and read, beside pyarrow
	$(VENV)/bin/python bench/orc/run.py

bench-graphar: installed ## Graphs in GraphAr beside the official Python package
	cargo build --release --bin stylobate-bench-graphar
	$(VENV)/bin/python bench/graphar/run.py

bench-graphar-scale: installed release ## Ten million edges, imported and walked in less memory than they take
	$(VENV)/bin/python bench/graphar/scale.py

bench-store: installed release ## Queries over a social network beside Kùzu, Ladybug and NamiDB; lookups as edges grow
	cargo build --release --bin stylobate-bench-store
	$(TARGET)/release/stylobate-bench-store
	$(VENV)/bin/python bench/store/run.py

# The workspace has the features of all crates, so that little is built twice.
bench-sql: release $(CLIENTS) ## Queries of TPC-H beside DataFusion's own tables, DuckDB, Polars and LiquidCache, warm and cold
	cargo build --release --workspace --bin stylobate-bench-sql
	-cargo build --release --locked --manifest-path bench/liquidcache/Cargo.toml --target-dir $(TARGET)/liquidcache
	$(VENV)/bin/python bench/sql/run.py

bench-sql-distributed: $(CLIENTS) ## Queries of TPC-H on clusters of one, two and three nodes, which have a core each
	cargo build --release $(DISTRIBUTED) --bin stylobate
	$(VENV)/bin/python bench/sql/run.py --only distributed --binary $(TARGET)/release/stylobate

bench-cluster-sim: ## Clusters of up to 1,000 nodes, simulated: balance, movement, hit ratios, hot objects
	cargo run --release --package stylobate-bench-cluster-sim

# ONLY=snappy runs those whose names contain it.
bench-micro: ## Inner loops beside the crates that could replace them, and lookups in nanoseconds; with ONLY=NAME, some
	cargo bench --workspace --bench micro $(if $(ONLY),-- $(ONLY))

soak: release $(CLIENTS) $(S3S_FS) ## A node, then a cluster with kills and a flaky origin, under load for MINUTES each (default 30); all of TPC-DS
	cargo test --workspace --test dsdgen -- --ignored
	STYLOBATE_BIN=$(TARGET)/release/stylobate STYLOBATE_SOAK_MINUTES=$(or $(MINUTES),30) $(VENV)/bin/python -m pytest -c tests/pytest.ini -s -m soak tests/test_crash.py tests/cluster_faults

kills: release $(CLIENTS) $(S3S_FS) ## A node with a disk tier, killed under load KILLS times (default 1000), every answer checked
	STYLOBATE_BIN=$(TARGET)/release/stylobate STYLOBATE_KILLS=$(or $(KILLS),1000) $(VENV)/bin/python -m pytest -c tests/pytest.ini -s -k killed_under_load tests/test_crash.py

cluster-faults: release $(CLIENTS) $(S3S_FS) ## Nodes in network namespaces, killed, cut off, drained and joined under load in ROUNDS (default 20); needs root
	STYLOBATE_BIN=$(TARGET)/release/stylobate STYLOBATE_FAULT_ROUNDS=$(or $(ROUNDS),20) $(VENV)/bin/python -m pytest -c tests/pytest.ini -s tests/cluster_faults

# The target `pages` starts and ends threads: what one frees as it ends looks like a leak to a check at that moment.
fuzz: installed $(CARGO_FUZZ) ## Fuzz the decoders for MINUTES (default 60) in all, and test random graphs
	STYLOBATE_RANDOM_GRAPHS=300 $(VENV)/bin/python -m pytest -c tests/pytest.ini -k all_kinds tests/python/test_graphar_write.py
	$(VENV)/bin/python fuzz/seeds.py $(CORPUS)
	@for target in file flight predicate record graphar chunked csv pages frames ipc; do \
	  share=$$((60 * $(or $(MINUTES),60) * $$([ $$target = file ] && echo 8 || echo 1) / 17)); mkdir -p $(CORPUS)/found/$$target; \
	  FUZZ_FOLDER=$(CORPUS)/lake RUSTC_BOOTSTRAP=1 $(TARGET)/tools/bin/cargo-fuzz run --target-dir $(TARGET)/fuzz $$target \
	    $(CORPUS)/$$target -- -max_total_time=$$share -max_len=32768 -timeout=30 -rss_limit_mb=6000 \
	    -artifact_prefix=$(CORPUS)/found/$$target/ -print_final_stats=1 \
	    $$([ $$target = pages ] && echo -detect_leaks=0) || exit 1; \
	done

release:
	cargo build --release --bin stylobate

# Where the system has no ensurepip, the virtual environment is made without pip, and that of the system puts uv into it.
$(CLIENTS): tests/requirements.txt tests/requirements-alone.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "make: $(PYTHON) is older than 3.10: name a newer one with PYTHON=…" >&2; exit 1; }
	@mkdir -p $(TARGET)
	@if $(PYTHON) -m venv --clear $(VENV) >$(TARGET)/venv.log 2>&1; then \
	  pip="$(VENV)/bin/python -m pip"; \
	elif $(PYTHON) -m venv --clear --without-pip $(VENV) >>$(TARGET)/venv.log 2>&1 && $(PYTHON) -m pip --version >/dev/null 2>&1; then \
	  pip="$(PYTHON) -m pip --python $(VENV)/bin/python"; \
	else \
	  cat $(TARGET)/venv.log >&2; \
	  echo "make: $(PYTHON) -m venv does not work: install python3-venv (Debian, Ubuntu) or its like" >&2; exit 1; \
	fi; \
	$$pip install --quiet --disable-pip-version-check $(UV)
	$(UV_INSTALL) -r $<
	$(UV_INSTALL) --no-deps -r tests/requirements-alone.txt
	@touch $@

# A release build of its own: the tests move gigabytes through it.
$(S3S_FS):
	cargo install s3s-fs --version 0.14.1 --features binary --locked --root $(TARGET)/tools --target-dir $(TARGET)/tools-build
	@touch $@

$(VERSITYGW):
	GOBIN=$(@D) go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

$(HELM):
	GOBIN=$(@D) go install helm.sh/helm/v3/cmd/helm@v3.22.0

$(ACTIONLINT):
	GOBIN=$(@D) go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

$(RELEASERS): packaging/requirements.txt $(CLIENTS)
	$(UV_INSTALL) -r $<
	@touch $@

# A package of Debian, with those that it needs and that are missing, unpacked and not installed.
$(DEBIAN)/%/unpacked:
	@rm -rf $(@D) && mkdir -p $(@D)/packages
	@apt-cache show $* >/dev/null 2>&1 || apt-get update --quiet=2
	cd $(@D)/packages && apt-get --quiet=2 download $* \
	  $$(apt-get install --simulate --no-install-recommends $* | sed -n 's/^Inst \([^ ]*\) .*/\1/p' | grep -vx $*)
	for package in $(@D)/packages/*.deb; do dpkg --extract $$package $(@D) || exit 1; done
	@rm -r $(@D)/packages
	@touch $@

$(TARGET)/browser/installed: tests/browser/package.json
	@mkdir -p $(@D)
	@cp $< $(@D)
	npm install --prefix $(@D) --no-audit --no-fund --no-package-lock
	@touch $@

# An environment of its own for each version: pyspark, and the jars that its pom names.
$(TARGET)/spark-%/installed: tests/spark/pom-%.xml
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check \
	  pyspark==$$(sed -n 's/.*spark-hadoop-cloud.*<version>\(.*\)<.version>.*/\1/p' $<)
	mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(@D)/jars
	@touch $@

# The reference reader of ORC: the judge of files that we write.
$(ORC_TOOLS):
	@mkdir -p $(@D)/jars
	$(MVN_COPY) -Dartifact=org.apache.orc:orc-tools:2.1.2:jar:uber -DoutputDirectory=$(@D)/jars
	echo "$(ORC_TOOLS_SHA256)  $(@D)/jars/$(@F)" | sha256sum --check --quiet
	@mv $(@D)/jars/$(@F) $@

$(JDBC_DRIVER):
	@mkdir -p $(@D)/jars
	$(MVN_COPY) -Dartifact=org.apache.arrow:flight-sql-jdbc-driver:18.3.0 -DoutputDirectory=$(@D)/jars
	echo "$(JDBC_DRIVER_SHA256)  $(@D)/jars/$(@F)" | sha256sum --check --quiet
	@mv $(@D)/jars/$(@F) $@

$(CARGO_FUZZ):
	cargo install cargo-fuzz --version 0.13.2 --locked --root $(TARGET)/tools --target-dir $(TARGET)/tools-build
	@touch $@

$(CARGO_DENY):
	cargo install cargo-deny --version 0.20.2 --locked --debug --root $(TARGET)/tools --target-dir $(TARGET)/tools-build
	@touch $@

$(MDBOOK):
	cargo install mdbook --version 0.5.4 --locked --root $(TARGET)/tools --target-dir $(TARGET)/tools-build
	@touch $@
