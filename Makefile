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
VERSION ?= $(or $(shell GIT_OPTIONAL_LOCKS=0 git describe --tags --always --dirty 2>/dev/null),development)

# Number of packages that are tested in parallel. Some start an API server each, and wait for more than half of the time.
TEST_PARALLEL ?= 3
TEST_TIMEOUT  ?= 25m
FUZZTIME      ?= 60s
BENCHCOUNT    ?= 6
SOAK          ?= 1h
PLATFORMS     ?= linux/amd64,linux/arm64,linux/s390x

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' Makefile

##@ Programs

# What is built, in order. Each takes its turn with a line, and says every 20 seconds what it is doing. The durations are
# those on two cores with an empty build cache.
DURATION_virtward                := about 5 minutes the first time
DURATION_etcd                    := about a minute the first time
DURATION_kube-apiserver          := about 3 minutes the first time
DURATION_kube-controller-manager := about a minute the first time
DURATION_kubectl                 := about a minute the first time
DURATION_helm                    := about a minute the first time
DURATION_tests                   := about 20 minutes
DURATION_attacks                 := about 4 minutes

COMPONENTS := virtward $(SANDBOX) helm
turn        = $(words $(shell printf '%s\n' $(COMPONENTS) | sed '/^$(1)$$/q')) of $(words $(COMPONENTS))
building    = .ci/progress "building $(1), $(call turn,$(1)): $(DURATION_$(1))"

.PHONY: build
build: ## Build the servers and the CLI into bin/
	@$(call building,virtward) go build -ldflags '$(SMALL) -X main.version=$(VERSION)' -o $(BIN)/ ./cmd/...

.PHONY: demo
demo: build sandbox-binaries $(BIN)/tools/helm ## Demonstrate it on a real API server: a tour, or DEMO=9 for a chapter, DEMO=all for everything, DEMO=once to exit
	@.ci/progress "building the demo" go build -ldflags '$(SMALL)' -o $(BIN)/demo ./test/demo
	exec $(BIN)/demo

.PHONY: sandbox
sandbox: build sandbox-binaries $(BIN)/tools/helm ## Start a control plane that stays up, and print its KUBECONFIG (SANDBOX_FLAGS='-library Audit')
	@.ci/progress "building the sandbox" go build -ldflags '$(SMALL)' -o $(BIN)/sandbox-up ./test/controlplane/cmd/sandbox
	exec $(BIN)/sandbox-up $(SANDBOX_FLAGS)

# The images have the names and the tag that the chart expects by default, or those of another repository.
REPOSITORY ?= docker.io/virtward
TAG        ?= $(shell awk '$$1 == "appVersion:" {gsub(/"/, "", $$2); print $$2}' charts/virtward/Chart.yaml)
KO          = VERSION=$(VERSION) KO_CONFIG_PATH=$(CURDIR)/.ko.yaml KO_DOCKER_REPO=$(REPOSITORY) \
	go run -C tools ./baseimage -dir $(CURDIR) -- $(BIN)/tools/ko build --base-import-paths --tags $(TAG)
IMAGES     := ./cmd/virtward ./cmd/virtward-apiserver

.PHONY: images
images: $(BIN)/tools/ko ## Build the container images for all architectures into bin/images (an OCI layout)
	rm -rf $(BIN)/images
	@.ci/progress "building the images for $(PLATFORMS)" env $(KO) --push=false --platform=$(PLATFORMS) --oci-layout-path=$(BIN)/images $(IMAGES)

.PHONY: image-archive
image-archive: $(BIN)/tools/ko ## Build the images for this architecture into bin/virtward-images.tar, for kind and k3s
	@.ci/progress "building the images" env $(KO) --push=false --platform=linux/$$(go env GOARCH) --tarball=$(BIN)/virtward-images.tar $(IMAGES)

.PHONY: push
push: $(BIN)/tools/ko ## Build the images for all architectures and push them (REPOSITORY=registry.example.com/virtward)
	@.ci/progress "building the images for $(PLATFORMS)" env $(KO) --platform=$(PLATFORMS) $(IMAGES)

.PHONY: clean
clean: ## Remove all built files
	rm -rf $(BIN)

##@ Tests

# -count=1, because cached results do not depend on the binaries in bin/. The attacks run last and by themselves: they
# assert that users are served meanwhile, and other suites beside them would take the machine's time from these users. The
# long suites begin first, so that none is left at the end while a core has nothing to do. There is memory, and the machine
# has few cores: so the garbage collector has less to do, but not in Virtward's processes, whose environment is the chart's.
.PHONY: test
test: build sandbox-binaries $(BIN)/tools/helm ## Run every test, including those on a real API server
	.ci/system-packages
	packages=$$({ go list ./test/...; go list ./... | grep -v '/virtward/test/'; } | grep -v '/test/attack$$'); \
	.ci/progress "running the tests, 1 of 2: $(DURATION_tests)" env GOGC=400 go test -count=1 -vet=off -ldflags '$(SMALL)' -p $(TEST_PARALLEL) -timeout $(TEST_TIMEOUT) $$packages
	.ci/progress "running the attacks, 2 of 2: $(DURATION_attacks)" env GOGC=400 go test -count=1 -vet=off -ldflags '$(SMALL)' -timeout $(TEST_TIMEOUT) ./test/attack

.PHONY: bench
bench: build sandbox-binaries $(BIN)/tools/helm $(BIN)/tools/benchstat ## Run the benchmarks and compare them with the previous run
	@mkdir -p $(BIN)/bench
	@if [[ -s $(BIN)/bench/latest.txt ]]; then mv $(BIN)/bench/latest.txt $(BIN)/bench/previous.txt; fi
	go test -run '^$$' -bench . -benchmem -count $(BENCHCOUNT) -timeout 60m ./test/bench/... | tee $(BIN)/bench/latest.txt
	@cd $(BIN)/bench && $(BIN)/tools/benchstat $$(ls previous.txt latest.txt 2>/dev/null)

.PHONY: fuzz
fuzz: ## Fuzz every fuzz test for a minute each (FUZZTIME=60s)
	.ci/fuzz $(FUZZTIME)

.PHONY: soak
soak: build sandbox-binaries $(BIN)/sandbox/cert-manager $(BIN)/tools/helm ## Run long tests: those named TestSoak…, others that are cut short otherwise, and fuzzing (SOAK=1h)
	VIRTWARD_SOAK=$(SOAK) go test -count=1 -v -p 1 -timeout 24h -run '^(TestSoak.*|TestE2E|TestNulls|TestCombinations|TestRollouts|TestCaptures|TestExportsAgree)$$' ./test/...
	.ci/fuzz $(SOAK)

##@ The source

.PHONY: fmt
fmt: $(BIN)/tools/golangci-lint ## Format the Go source
	$(BIN)/tools/golangci-lint fmt

.PHONY: lint
lint: $(BIN)/tools/golangci-lint ## Run the linters, including the import law
	$(BIN)/tools/golangci-lint run ./...
	cd tools && $(BIN)/tools/golangci-lint run ./...

.PHONY: generate
generate: $(BIN)/tools/controller-gen ## Write all generated files
	go generate ./...

# verify never writes to the tree, so it gives the same result locally and in CI.
.PHONY: verify
verify: lint verify-format verify-modules verify-dependencies verify-generated verify-chart verify-words verify-scripts ## Run all checks that are not tests; writes nothing
	@echo "verified"

.PHONY: verify-format
verify-format: $(BIN)/tools/golangci-lint
	$(BIN)/tools/golangci-lint fmt --diff

.PHONY: verify-modules
verify-modules:
	go mod tidy -diff
	go mod tidy -C tools -diff
	go mod tidy -C test/sandbox -diff

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

COMMA := ,

# Each tool is a `tool` line of tools/go.mod, and is rebuilt when that module changes.
$(BIN)/tools/%: tools/go.mod tools/go.sum
	@mkdir -p $(@D)
	@package=$$(go list -C tools tool | grep '/$*$$'); \
	.ci/progress "building $*$(if $(filter $*,$(COMPONENTS)),$(COMMA) $(call turn,$*))$(if $(DURATION_$*),: $(DURATION_$*))" go build -C tools -ldflags '$(SMALL)' -o $@ $$package
	@touch $@

# The control plane of the sandbox has its own module. Clients parse the version of a server, so the version of
# k8s.io/kubernetes in that module is written into the binaries.

.PHONY: sandbox-binaries
sandbox-binaries: $(SANDBOX:%=$(BIN)/sandbox/%) $(BIN)/kubectl

KUBERNETES       = $(shell awk '$$1 == "k8s.io/kubernetes" {print $$2; exit}' test/sandbox/go.mod)
KUBERNETES_WORDS = $(subst ., ,$(KUBERNETES:v%=%))
KUBERNETES_STAMP = -X k8s.io/component-base/version.gitVersion=$(KUBERNETES) \
	-X k8s.io/component-base/version.gitMajor=$(word 1,$(KUBERNETES_WORDS)) \
	-X k8s.io/component-base/version.gitMinor=$(word 2,$(KUBERNETES_WORDS))

$(BIN)/sandbox/%: test/sandbox/%/main.go test/sandbox/go.mod test/sandbox/go.sum
	@mkdir -p $(@D)
	@$(call building,$*) go build -C test/sandbox -ldflags '$(SMALL) $(KUBERNETES_STAMP)' -o $@ ./$*
	@touch $@

# cert-manager has a module of its own too. Only the soak tests need it: it takes minutes to build.
$(BIN)/sandbox/cert-manager: test/certmanager/cert-manager/main.go test/certmanager/go.mod test/certmanager/go.sum
	@mkdir -p $(@D)
	@.ci/progress "building cert-manager" go build -C test/certmanager -ldflags '$(SMALL)' -o $@ ./cert-manager
	@touch $@

# In the same folder as kubectl-virtward, so that `kubectl virtward` works with bin/ in the PATH.
$(BIN)/kubectl: $(BIN)/sandbox/kubectl
	ln -f $< $@
