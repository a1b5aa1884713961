# Everything is built into bin/. All targets share one set of build flags, and so one build cache: the caller's
# environment without cgo. Without tables for debuggers, each of the many test programs links in two thirds of the time.
.DEFAULT_GOAL := help
SHELL         := bash
.SHELLFLAGS   := -eu -o pipefail -c
MAKEFLAGS     += --no-builtin-rules --no-print-directory
.SUFFIXES:
.DELETE_ON_ERROR:

export CGO_ENABLED := 0

BIN     := $(CURDIR)/bin
SMALL   := -s -w
SANDBOX := etcd kube-apiserver kube-controller-manager kubectl
# Only the soak tests start a scheduler.
SCHEDULER := $(BIN)/sandbox/kube-scheduler
VERSION ?= $(or $(shell GIT_OPTIONAL_LOCKS=0 git describe --tags --always --dirty 2>/dev/null),development)

# Number of packages that are tested in parallel. Some start an API server each, and wait for more than half of the time.
TEST_PARALLEL ?= 3
TEST_TIMEOUT  ?= 25m
FUZZTIME      ?= 60s
BENCHCOUNT    ?= 6
SOAK          ?= 1h

TEST := env GOGC=400 go test -vet=off -ldflags '$(SMALL)' -timeout $(TEST_TIMEOUT)

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' Makefile

##@ Programs

# What is built, in order. Each takes its turn with a line, and says every 20 seconds what it is doing. The durations are
# those on two cores with an empty build cache.
DURATION_kubectl-virtward        := about 2 minutes the first time
DURATION_virtward                := about 3 minutes the first time
DURATION_etcd                    := about a minute the first time
DURATION_kube-apiserver          := about 3 minutes the first time
DURATION_kube-controller-manager := about a minute the first time
DURATION_kubectl                 := about a minute the first time
DURATION_helm                    := about a minute the first time
DURATION_suites                  := about half an hour
DURATION_units                   := about 4 minutes the first time
DURATION_attacks                 := about 4 minutes

COMPONENTS := kubectl-virtward virtward $(SANDBOX) helm
turn        = $(words $(shell printf '%s\n' $(COMPONENTS) | sed '/^$(1)$$/q')) of $(words $(COMPONENTS))
building    = .ci/progress "building $(1), $(call turn,$(1)): $(DURATION_$(1))"

program     = go build -ldflags '$(SMALL) -X main.version=$(VERSION)' -o $(BIN)/

.PHONY: build
build: cli servers ## Build the servers and the CLI into bin/
	@.ci/progress "building kubectl-virtward-conformance" $(program) ./cmd/kubectl-virtward-conformance

.PHONY: cli
cli:
	@$(call building,kubectl-virtward) $(program) ./cmd/kubectl-virtward

.PHONY: servers
servers:
	@$(call building,virtward) $(program) ./cmd/virtward ./cmd/virtward-apiserver ./cmd/virtward-node-labeller ./cmd/virtward-node-tuner ./cmd/virtward-import-server ./cmd/virtward-export-server

# The part of the demo that needs no cluster runs as soon as the CLI is built. It is left out if the servers are built already.
.PHONY: offline
offline: cli
	@examples/offline

.PHONY: demo
ifeq ($(DEMO),offline)
demo: offline
else
demo: $(if $(wildcard $(BIN)/virtward),cli,offline) servers sandbox-binaries $(BIN)/tools/helm ## Demonstrate it on a real API server: a tour, or DEMO=9 for a chapter, DEMO=all for everything, DEMO=once to exit, DEMO=offline for the part without a cluster
	@.ci/progress "building the demo" go build -ldflags '$(SMALL)' -o $(BIN)/demo ./test/demo
	exec $(BIN)/demo
endif

.PHONY: sandbox
sandbox: cli servers sandbox-binaries $(BIN)/tools/helm ## Start a control plane that stays up, and print how to use it (SANDBOX_FLAGS='-library Audit')
	@.ci/progress "building the sandbox" go build -ldflags '$(SMALL)' -o $(BIN)/virtward-sandbox ./test/controlplane/cmd/sandbox
	@exec $(BIN)/virtward-sandbox $(SANDBOX_FLAGS)

# The images have the tag that the chart expects by default. Their default names are those of images that no registry has.
REPOSITORY ?= localhost/virtward
TAG        ?= $(shell awk '$$1 == "appVersion:" {gsub(/"/, "", $$2); print $$2}' charts/virtward/Chart.yaml)
IMAGES      = $(BIN)/tools/release images -version $(VERSION) -repository $(REPOSITORY) -tag $(TAG) -programs $(BIN)/release

.PHONY: images
images: $(BIN)/tools/release ## Build the container images for all architectures into bin/images (OCI layouts)
	rm -rf $(BIN)/images
	@.ci/progress "building the images for three architectures" $(IMAGES) -out $(BIN)/images

.PHONY: image-archive
image-archive: $(BIN)/tools/release ## Build the images for this architecture into bin/virtward-images.tar, for kind and k3s
	@.ci/progress "building the images" $(IMAGES) -architectures $$(go env GOARCH) -archive $(BIN)/virtward-images.tar

.PHONY: push
push: $(BIN)/tools/release ## Build the images for all architectures and push them (REPOSITORY=registry.example.com/virtward)
	@.ci/progress "building the images for three architectures" $(IMAGES) -push

# A release for a registry on this machine, signed with a key of its own, unless other values say otherwise: docs/release.md.
DIST               ?= $(CURDIR)/dist
RELEASE_REPOSITORY ?= 127.0.0.1:5000/virtward
RELEASE_URL        ?= http://127.0.0.1:5000/download
RELEASE_FLAGS      ?=
SIGN_FLAGS         ?= -key $(BIN)/release.key

.PHONY: release
release: $(BIN)/tools/release $(BIN)/tools/signing $(BIN)/tools/helm ## Build the files of a release into dist/, and sign them (VERSION=v0.1.0)
	@.ci/progress "building the release" $(BIN)/tools/release build -version $(VERSION) -repository $(RELEASE_REPOSITORY) -url $(RELEASE_URL) \
		-helm $(BIN)/tools/helm -programs $(BIN)/release -out $(DIST) $(RELEASE_FLAGS)
	@$(BIN)/tools/signing sign $(SIGN_FLAGS) $(DIST)
	@cat $(DIST)/INSTALL.md

.PHONY: site
site: ## Build the site of the documentation into bin/site (SITE_VERSIONS='v0.1.0 v0.2.0' adds those of tags)
	@.ci/progress "building the site" site/build $(SITE_VERSIONS)

.PHONY: site-check
site-check: ## Open each page of bin/site in Debian's chromium: links, errors, search, 400 pixels
	node site/check.mjs

.PHONY: editors
editors: ## Build the extension for Visual Studio Code, bin/virtward.vsix
	mkdir -p $(BIN)
	cd editors/vscode && npm ci --ignore-scripts --no-audit --no-fund && npm run package

.PHONY: clean
clean: ## Remove all built files
	rm -rf $(BIN)

##@ Tests

# Go caches the results, so only packages that a change concerns are tested again. Nothing is built into bin/: packages whose
# tests all need a control plane are not linked, single ones are skipped, and those that need Helm run where bin/ has it.
.PHONY: unit
unit: ## Run the tests that need no API server; what has not changed is not tested again
	@packages=$$(.ci/units); .ci/progress "running the tests without an API server" $(TEST) -short $$packages

# The suites that start control planes run each time (-count=1), because cached results do not depend on the binaries in bin/. The
# others are cached as in `unit`: what has not changed is neither linked nor run again. The attacks run last and by themselves: they
# assert that users are served meanwhile, and other suites beside them would take the machine's time from these users. The
# long suites begin first, so that none is left at the end while a core has nothing to do. There is memory, and the machine
# has few cores: so the garbage collector has less to do, but not in Virtward's processes, whose environment is the chart's.
.PHONY: test
test: build sandbox-binaries $(BIN)/tools/helm $(BIN)/tools/release ## Run every test, including those on a real API server
	.ci/system-packages
	suites=$$(.ci/suites); \
	.ci/progress "running the tests, 1 of 3: $(DURATION_suites)" $(TEST) -count=1 -exec $(CURDIR)/.ci/priority -p $(TEST_PARALLEL) $$(grep -v '/test/attack$$' <<<"$$suites"); \
	.ci/progress "running the tests, 2 of 3: $(DURATION_units)" $(TEST) $$(go list ./... | grep -vxF "$$suites")
	.ci/progress "running the attacks, 3 of 3: $(DURATION_attacks)" $(TEST) -count=1 ./test/attack
	cd test/monitoring && $(CURDIR)/.ci/progress "running the alerts and dashboards" $(TEST) -count=1 ./...
	go test -C tools/release -vet=off ./images
	cd test/compare/kyverno && $(CURDIR)/.ci/progress "running Kyverno's engine" go run ./patterns $(CURDIR)/policies/convert/testdata/kyverno/patterns.json

.PHONY: bench
bench: build sandbox-binaries $(BIN)/tools/helm $(BIN)/tools/benchstat ## Run the benchmarks and compare them with the previous run
	@mkdir -p $(BIN)/bench
	@if [[ -s $(BIN)/bench/latest.txt ]]; then mv $(BIN)/bench/latest.txt $(BIN)/bench/previous.txt; fi
	go test -run '^$$' -bench . -benchmem -count $(BENCHCOUNT) -timeout 60m ./test/bench/... | tee $(BIN)/bench/latest.txt
	@cd $(BIN)/bench && $(BIN)/tools/benchstat $$(ls previous.txt latest.txt 2>/dev/null)

.PHONY: allocations
allocations: ## Renew the baseline of allocations, after a change that is meant to allocate more or that allocates less
	VIRTWARD_RENEW_ALLOCATIONS=1 go test -vet=off -count=1 -run '^TestAllocations$$' ./test/bench

# The programs of the peers are compiled from their published modules. That takes many minutes, so CI does not do it.
.PHONY: compare
compare: build sandbox-binaries $(BIN)/tools/helm ## Compare with Gatekeeper, Kyverno and native policies, and write the tables of docs/performance.md
	@mkdir -p $(BIN)/compare
	go build -C test/compare -ldflags '$(SMALL)' -o $(BIN)/compare/compare .
	go build -C test/compare/gatekeeper -p 1 -ldflags '$(SMALL)' -o $(BIN)/compare/gatekeeper .
	go build -C test/compare/kyverno -p 1 -ldflags '$(SMALL)' -o $(BIN)/compare/kyverno .
	$(BIN)/compare/compare -gatekeeper $(BIN)/compare/gatekeeper -kyverno $(BIN)/compare/kyverno -document docs/performance.md

.PHONY: fuzz
fuzz: ## Fuzz every fuzz test for a minute each (FUZZTIME=60s)
	.ci/fuzz $(FUZZTIME)

# The packages whose tests run for longer in a soak, and the names of these tests: a test of test/soak finds what is missing.
SOAKED = $(shell git grep -lF '"github.com/virtward/virtward/test/soak"' -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's,^,./,')
LONG  := TestSoak.* TestE2E TestNulls TestCombinations TestRollouts TestCaptures TestExportsAgree TestKyvernoDenials TestEqualsCommands \
         TestLibraryMutants TestExport

.PHONY: soak
soak: build editors sandbox-binaries $(SCHEDULER) $(SANDBOX:%=$(BIN)/oldest/%) $(BIN)/sandbox/cert-manager $(BIN)/tools/helm $(BIN)/tools/controller-gen $(BIN)/tools/release $(BIN)/tools/signing ## Run long tests: those named TestSoak…, others that are cut short otherwise, and fuzzing (SOAK=1h)
	VIRTWARD_SOAK=$(SOAK) go test -count=1 -v -p 1 -timeout 24h -run '^($(shell echo '$(LONG)' | tr ' ' '|'))$$' $(SOAKED)
	cd test/monitoring && VIRTWARD_SOAK=$(SOAK) go test -count=1 -run '^TestSoak' ./...
	VIRTWARD_SANDBOX=oldest go test -count=1 -timeout 2h ./test/controlplane ./test/e2e ./test/templateapi
	.ci/fuzz $(SOAK)

##@ The source

.PHONY: fmt
fmt: $(BIN)/tools/golangci-lint ## Format the Go source
	$(BIN)/tools/golangci-lint fmt

.PHONY: lint
lint: $(BIN)/tools/golangci-lint ## Run the linters, including the import law
	$(BIN)/tools/golangci-lint run ./...
	@for module in tools/release tools/signing test/monitoring; do (cd $$module && $(BIN)/tools/golangci-lint run ./...) || exit 1; done

.PHONY: generate
generate: $(BIN)/tools/controller-gen ## Write all generated files
	go generate ./...

# verify never writes to the tree, so it gives the same result locally and in CI.
.PHONY: verify
verify: lint verify-format verify-modules verify-versions verify-dependencies verify-generated verify-chart verify-words verify-scripts ## Run all checks that are not tests; writes nothing
	@echo "verified"

.PHONY: verify-format
verify-format: $(BIN)/tools/golangci-lint
	$(BIN)/tools/golangci-lint fmt --diff

.PHONY: verify-modules
verify-modules:
	go mod tidy -diff
	go mod tidy -C tools -diff
	go mod tidy -C tools/helm -diff
	go mod tidy -C tools/release -diff
	go mod tidy -C tools/signing -diff
	go mod tidy -C test/sandbox -diff
	go mod tidy -C test/sandbox -modfile oldest.mod -diff
	go mod tidy -C test/monitoring -diff
	go mod tidy -C test/compare -diff

.PHONY: verify-versions
verify-versions:
	.ci/verify-versions

.PHONY: verify-dependencies
verify-dependencies:
	.ci/verify-dependencies

.PHONY: verify-generated
verify-generated: $(BIN)/tools/controller-gen
	.ci/verify-generated

.PHONY: verify-chart
verify-chart: $(BIN)/tools/helm
	.ci/verify-chart $(BIN)/tools/helm charts/virtward
	.ci/verify-chart $(BIN)/tools/helm charts/virtward-common-templates

.PHONY: verify-words
verify-words:
	.ci/verify-words

.PHONY: verify-scripts
verify-scripts:
	.ci/verify-scripts

# Binaries of other projects.

# Helm has a module of its own, because `make demo` builds it too: its packages have the versions of the other programs.
$(BIN)/tools/helm: tools/helm/main.go tools/helm/go.mod tools/helm/go.sum
	@mkdir -p $(@D)
	@$(call building,helm) go build -C tools/helm -ldflags '$(SMALL)' -o $@ .
	@touch $@

# The programs that make releases. The second has Sigstore's libraries, which take almost a minute to compile.
$(BIN)/tools/release $(BIN)/tools/signing: $(BIN)/tools/%: $(wildcard tools/release/*.go tools/release/*/*.go tools/release/go.* tools/signing/*.go tools/signing/go.*)
	@mkdir -p $(@D)
	@.ci/progress "building $*" go build -C tools/$* -ldflags '$(SMALL)' -o $@ .
	@touch $@

# Each other tool is a `tool` line of tools/go.mod, and is rebuilt when that module changes.
$(BIN)/tools/%: tools/go.mod tools/go.sum
	@mkdir -p $(@D)
	@package=$$(go list -C tools tool | grep '/$*$$'); \
	.ci/progress "building $*" go build -C tools -ldflags '$(SMALL)' -o $@ $$package
	@touch $@

# The control plane of the sandbox has its own module. Clients parse the version of a server, so the version of
# k8s.io/kubernetes in that module is written into the binaries.

.PHONY: sandbox-binaries
sandbox-binaries: $(SANDBOX:%=$(BIN)/sandbox/%) $(BIN)/kubectl

# The version in a go.mod, and the flags that write it into the binaries.
kubernetes = $(shell awk '$$1 == "k8s.io/kubernetes" {print $$2; exit}' test/sandbox/$(1))
numbers    = $(subst ., ,$(patsubst v%,%,$(1)))
stamp      = -X k8s.io/component-base/version.gitVersion=$(1) \
	-X k8s.io/component-base/version.gitMajor=$(word 1,$(call numbers,$(1))) \
	-X k8s.io/component-base/version.gitMinor=$(word 2,$(call numbers,$(1)))

$(BIN)/sandbox/%: test/sandbox/%/main.go test/sandbox/go.mod test/sandbox/go.sum
	@mkdir -p $(@D)
	@$(call building,$*) go build -C test/sandbox -ldflags '$(SMALL) $(call stamp,$(call kubernetes,go.mod))' -o $@ ./$*
	@touch $@

# The oldest Kubernetes that the chart can be installed on, for the soak tests.
$(BIN)/oldest/%: test/sandbox/%/main.go test/sandbox/oldest.mod test/sandbox/oldest.sum
	@mkdir -p $(@D)
	@.ci/progress "building $* $(call kubernetes,oldest.mod)" \
		go build -C test/sandbox -modfile oldest.mod -ldflags '$(SMALL) $(call stamp,$(call kubernetes,oldest.mod))' -o $@ ./$*
	@touch $@

# cert-manager has a module of its own too. Only the soak tests need it: it takes minutes to build.
$(BIN)/sandbox/cert-manager: test/certmanager/cert-manager/main.go test/certmanager/go.mod test/certmanager/go.sum
	@mkdir -p $(@D)
	@.ci/progress "building cert-manager" go build -C test/certmanager -ldflags '$(SMALL)' -o $@ ./cert-manager
	@touch $@

# In the same folder as kubectl-virtward, so that `kubectl virtward` works with bin/ in the PATH.
$(BIN)/kubectl: $(BIN)/sandbox/kubectl
	ln -f $< $@
