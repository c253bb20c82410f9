# "make" alone lists the targets. Flags for the go command go into GOFLAGS.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

GO ?= go
# The benchmarks of make bench, as a pattern of go test -bench.
BENCH ?= Nearby/engine=/strategy=/data=dense/rows=(20000|200000)$$
BENCHMATCH ?= ^Benchmark(Transitions|Alerts)$$
BENCHTIME ?= 300ms
BENCHCOUNT ?= 3

# ./... leaves out what is below testdata, where the start of MySQL lives.
PACKAGES := ./... ./testdata/testdb/... ./testdata/withchrome
RACE_PACKAGES := ./store/... ./api/... ./bench/... ./cmd/...

# Runs a command with a MySQL server, in Docker unless NEARJOB_TEST_MYSQL_DSN names one.
WITHMYSQL := $(GO) run ./testdata/testdb/withmysql --
# The same for a browser: see testdata/withchrome.
WITHCHROME := $(GO) run ./testdata/withchrome --

# Both are run at these versions, and are no dependencies of the module.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## see Nearjob work, without a database server
	$(GO) run ./cmd/nearjob demo

.PHONY: build
build: ## build bin/nearjob
	$(GO) build -o bin/nearjob ./cmd/nearjob

.PHONY: test
test: ## run all tests, with MySQL and a browser
	$(WITHCHROME) $(WITHMYSQL) $(GO) test -timeout 14m $(PACKAGES)

.PHONY: race
race: ## run the packages that use goroutines under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -short -timeout 14m $(RACE_PACKAGES)

.PHONY: cover
cover: ## run all tests, with MySQL, and print the coverage by function
	$(WITHCHROME) $(WITHMYSQL) $(GO) test -timeout 14m -coverpkg=./... -coverprofile=coverage.out $(PACKAGES)
	$(GO) tool cover -func=coverage.out

.PHONY: bench
bench: ## time searches, transitions and alerts on both engines (see BENCH in the Makefile)
	$(WITHMYSQL) $(GO) test -timeout 60m -run '^$$' -bench '$(BENCH)' -benchtime '$(BENCHTIME)' -count $(BENCHCOUNT) ./store/storetest \
		| tee /dev/stderr | $(GO) run ./store/storetest/benchtable
	$(WITHMYSQL) $(GO) test -timeout 60m -run '^$$' -bench '$(BENCHMATCH)' -benchtime '$(BENCHTIME)' ./store/storetest

.PHONY: lint
lint: fmt vet staticcheck vuln ## check format, vet, staticcheck and known vulnerabilities

.PHONY: fmt
fmt:
	@files=$$(gofmt -l .); \
	if [[ -n $$files ]]; then echo "not formatted (run gofmt -w on them):"; echo "$$files"; exit 1; fi

.PHONY: vet
vet:
	$(GO) vet $(PACKAGES)

.PHONY: staticcheck
staticcheck:
	$(GO) run $(STATICCHECK) $(PACKAGES)

# A finding fails, and so does any error but one: without a network the
# database of vulnerabilities cannot be read, which says nothing about the code.
.PHONY: vuln
vuln:
	@echo '$(GO) run $(GOVULNCHECK) $(PACKAGES)'; \
	if out=$$($(GO) run $(GOVULNCHECK) $(PACKAGES) 2>&1); then \
		echo "$$out"; \
	elif [[ $$out == *'govulncheck: fetching vulnerabilities:'* ]]; then \
		echo "$$out"; \
		echo 'WARNING: SKIPPED: govulncheck cannot reach its database: known vulnerabilities were NOT checked' >&2; \
	else \
		echo "$$out"; exit 1; \
	fi
