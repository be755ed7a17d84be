# Needs Go, make, git, a C compiler (for the race detector and the model) and
# Node.js with npm (for Azurite); everything else is built here, from the versions
# pinned in test/tools/*, but Spin and Chromium, which are Debian's.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VERSION  ?= $(shell git describe --always --dirty 2>/dev/null)
FUZZTIME ?= 60s
FUZZFLAGS ?= -fuzzminimizetime=5s
ROUNDS   ?= 50
KILLS    ?= 100
SEEDS    ?= 2000
# Which of "make mutants": a regular expression.
ONLY     ?=
# Packages and flags of "make test", as in: make test PKG=./store/... TESTFLAGS=-run=Retry
PKG       ?= ./...
TESTFLAGS ?=
# Without these tags the program has what it never uses and would have in memory: another
# way to Google's storage, and gRPC's own tracing. The Dockerfile has them too.
TAGS := disable_grpc_modules,grpcnotrace
# Begins what builds the program by itself, so that what is tested is what is shipped.
TAGGED := export GOFLAGS="$$(go env GOFLAGS) -tags=$(TAGS)";
# What starts whole deployments: one package at a time, since their clocks are real,
# and not with the race detector, which would only see the tests' own code.
DEPLOYED  := /test/(deploy|e2e|robust)

ETCDS := $(patsubst test/tools/etcd-%,%,$(wildcard test/tools/etcd-*))
ETCD_TOOLS := $(foreach v,$(ETCDS),$(addprefix .tools/etcd-$(v)/,etcd etcdctl etcdutl))
STORE_SERVERS := $(addprefix .tools/,versitygw minio fake-gcs-server toxiproxy)
AZURITE := .tools/azurite/node_modules/.bin/azurite-blob
LINT := .tools/golangci-lint
DEPLOY_TOOLS := .tools/manifests .tools/promtool
VULNCHECK := .tools/govulncheck
VULNDB ?= https://vuln.go.dev

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/etcd-ferry
	CGO_ENABLED=0 go build -trimpath -tags $(TAGS) -ldflags '-s -w -X main.version=$(VERSION)' -o bin/ ./cmd/etcd-ferry

.PHONY: demo
demo: build ## Watch a real etcd being handed over while clients write, and see that nothing is lost
	bin/etcd-ferry demo

.PHONY: test
test: $(ETCD_TOOLS) $(STORE_SERVERS) $(AZURITE) $(DEPLOY_TOOLS) $(VULNCHECK) spin browser ## Run all tests, against real etcds and stores and with the race detector
	$(TAGGED) all=$$(go list $(PKG)); deployed=$$(grep -E '$(DEPLOYED)' <<<"$$all" || true); units=$$(grep -vE '$(DEPLOYED)' <<<"$$all" || true); \
	{ failed=0; \
	  [ -z "$$units" ] || go test -json -vet=off -count=1 -timeout=15m -race $(TESTFLAGS) $$units || failed=1; \
	  [ -z "$$deployed" ] || go test -json -vet=off -count=1 -timeout=15m -p=1 $(TESTFLAGS) $$deployed || failed=1; \
	  exit $$failed; } | go run ./test/tools/report

.PHONY: lint
lint: $(LINT) lint-proof ## Check the code against .golangci.yml, and go.mod
	$(LINT) run
	go mod tidy -diff

.PHONY: lint-proof
lint-proof: $(LINT) ## Prove that a wrong import is found
	go -C test/tools/lint test -count=1 .

# What was found interesting is kept beside the test if it is small: other inputs, the
# smallest first, up to 100 KiB of each test. "make test" runs them all.
.PHONY: fuzz
fuzz: ## Run each fuzz test for FUZZTIME (60s), and keep what it found in testdata/fuzz
	@grep -rEo --include='*_test.go' '^func Fuzz\w+' . | sed -E 's|^\./||; s|/[^/]*:func | |' | sort | while read -r dir func; do \
		echo "$$dir $$func"; \
		go test -run='^$$' -fuzz="^$$func$$" -fuzztime=$(FUZZTIME) $(FUZZFLAGS) "./$$dir" </dev/null; \
		found="$$(go env GOCACHE)/fuzz/$$(go list -m)/$$dir/$$func"; [ -d "$$found" ] || continue; \
		kept="$$dir/testdata/fuzz/$$func"; mkdir -p "$$kept"; size=$$(du -bs "$$kept" | cut -f1); \
		while read -r bytes file; do \
			[ -e "$$kept/$$file" ] || [ $$((size + bytes)) -gt $$((100 << 10)) ] || { cp "$$found/$$file" "$$kept/"; size=$$((size + bytes)); }; \
		done < <(find "$$found" -type f -printf '%s %f\n' | sort -n); \
	done

.PHONY: bench
bench: $(ETCD_TOOLS) $(STORE_SERVERS) $(AZURITE) ## Measure the figures of the README
	$(TAGGED) go test -run='^$$' -bench=. -benchtime=1x -timeout=90m ./test/bench

.PHONY: robust
robust: $(ETCD_TOOLS) ## Hand etcds of each version over ROUNDS (50) times, with clients that write
	$(TAGGED) FERRY_ROUNDS=$(ROUNDS) go test -json -run='^TestNothingIsLost$$' -timeout=4h ./test/robust/rows | go run ./test/tools/report

.PHONY: kills
kills: $(ETCD_TOOLS) ## Kill KILLS (100) sidecars that back up, and twice as many copies of hand-overs, at random moments
	FERRY_KILLS=$(KILLS) go test -json -run='KilledAnywhere$$' -count=1 -p=1 -timeout=4h ./test/robust ./test/robust/rows | go run ./test/tools/report

.PHONY: model
model: spin ## Search every state of the hand-over's model, and see its mutants fail
	go test -v -count=1 -timeout=15m ./test/model

.PHONY: mutants
mutants: $(ETCD_TOOLS) $(STORE_SERVERS) ## Break the hand-over on purpose, one rule at a time, and see the tests notice
	$(TAGGED) go run ./test/tools/mutants -only '$(ONLY)'

.PHONY: spin
spin:
	@command -v spin >/dev/null || \
		{ command -v apt-get >/dev/null && echo 'spin is missing, it is installed from Debian' >&2 && \
			as=$$([ "$$(id -u)" = 0 ] || echo sudo) && $$as apt-get update -qq && $$as apt-get install -qq -y spin >&2; } || \
		{ echo 'spin is missing: install Spin 6.5 (https://spinroot.com), test/model needs it' >&2; exit 1; }

.PHONY: browser
browser:
	@command -v chromium-headless-shell chromium chrome google-chrome >/dev/null || \
		{ command -v apt-get >/dev/null && echo 'Chromium is missing, it is installed from Debian' >&2 && \
			as=$$([ "$$(id -u)" = 0 ] || echo sudo) && $$as apt-get update -qq && $$as apt-get install -qq -y --no-install-recommends chromium-headless-shell >&2; } || \
		{ echo 'Chromium is missing: install chromium-headless-shell, chromium or Chrome, test/browser needs it' >&2; exit 1; }

.PHONY: sim
sim: ## Simulate SEEDS (2000) hand-overs, each with its own misfortunes, see test/robust/sim
	go test -json -vet=off -count=1 -timeout=0 ./test/robust/sim -seeds $(SEEDS) | go run ./test/tools/report

.PHONY: vuln
vuln: $(VULNCHECK) ## Look for known vulnerabilities in what the program calls, if VULNDB answers
	go run ./test/tools/vulns -db '$(VULNDB)' $(VULNCHECK) -tags $(TAGS) ./cmd/...

.PHONY: ci
ci: lint vuln test ## What a change has to pass

.PHONY: sbom
sbom: build .tools/sbom ## Write bin/sbom.json: the modules that bin/etcd-ferry is made of (CycloneDX)
	.tools/sbom bin/etcd-ferry '$(VERSION)' > bin/sbom.json

# The second time from a copy elsewhere and with nothing compiled before.
.PHONY: reproduce
reproduce: ## Build what the Dockerfile builds, for each platform, twice, and compare; takes minutes
	@export VERSION='$(VERSION)' TARGETOS=linux; \
	copy=$$(mktemp -d); trap 'chmod -R u+w "$$copy"; rm -rf "$$copy"' EXIT; mkdir -p bin "$$copy/src"; \
	git ls-files -z cmd copier pkg restorer server snapshotter store syncobject go.mod go.sum | xargs -0 cp --parents -t "$$copy/src"; \
	line=$$(sed -n 's/^RUN \(.*go build.*\)/\1/p' Dockerfile); \
	for TARGETARCH in amd64 arm64; do export TARGETARCH; out="$(CURDIR)/bin/etcd-ferry-linux-$$TARGETARCH"; \
		sh -ec "$${line//\/out\/etcd-ferry/$$out}"; \
		(cd "$$copy/src" && GOCACHE="$$copy/cache" sh -ec "$${line//\/out\/etcd-ferry/$$copy/etcd-ferry}"); \
		cmp "$$out" "$$copy/etcd-ferry"; \
		test $$(stat -c %s "$$out") -le $$((80 << 20)) || { echo "$$out is larger than 80 MiB" >&2; exit 1; }; \
		sha256sum "$$out"; \
	done

.PHONY: tools
tools: $(ETCD_TOOLS) $(STORE_SERVERS) $(AZURITE) $(DEPLOY_TOOLS) $(VULNCHECK) $(LINT) spin browser ## Build etcd in all supported versions, object stores, a bad network, promtool, and the linter

# All three programs of a version come from one run.
.tools/etcd-%/etcd .tools/etcd-%/etcdctl .tools/etcd-%/etcdutl: test/tools/etcd-%/go.mod test/tools/etcd-%/go.sum
	mkdir -p .tools/etcd-$*
	CGO_ENABLED=0 go -C test/tools/etcd-$* build -trimpath -o '$(CURDIR)/.tools/etcd-$*/' tool
	mv .tools/etcd-$*/server .tools/etcd-$*/etcd

$(STORE_SERVERS) $(VULNCHECK): .tools/%: test/tools/%/go.mod test/tools/%/go.sum
	CGO_ENABLED=0 go -C test/tools/$* build -trimpath -o '$(CURDIR)/$@' tool

# What npm unpacks is years old, so it is touched.
$(AZURITE): test/tools/azurite/package.json test/tools/azurite/package-lock.json
	@command -v npm >/dev/null || { echo 'npm is missing: install Node.js 20 or newer, Azurite runs on it' >&2; exit 1; }
	mkdir -p .tools/azurite
	cp $^ .tools/azurite/
	cd .tools/azurite && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@

.tools/manifests .tools/sbom: .tools/%: test/tools/%/go.mod test/tools/%/go.sum test/tools/%/main.go
	CGO_ENABLED=0 go -C test/tools/$* build -trimpath -o '$(CURDIR)/$@' .

# Without the clients of clouds in which Prometheus looks for targets.
.tools/promtool: test/tools/promtool/go.mod test/tools/promtool/go.sum
	CGO_ENABLED=0 go -C test/tools/promtool build -tags remove_all_sd -trimpath -o '$(CURDIR)/$@' tool

$(LINT): test/tools/lint/go.mod test/tools/lint/go.sum
	CGO_ENABLED=0 go -C test/tools/lint build -trimpath -o '$(CURDIR)/.tools/' tool

.PHONY: clean
clean: ## Remove what was built, tools included
	rm -rf bin .tools
