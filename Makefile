# Aviary. `make help` lists the targets; `make demo` and `make test` are all that a newcomer needs.

SHELL := /bin/sh
GO    ?= go
BIN   := bin/aviary
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
SOURCES := $(shell find . -name '*.go' -o -name '*.c' -o -name '*.h' -o -name 'go.mod' | grep -v '/bench/.venv/')

.DEFAULT_GOAL := help
.PHONY: help build demo test check unit race asan avx512 fuzz test-interop data peers bench reproduce-mnist reproduce-fashion reproduce-interference reproduce-ablation reproduce-tune data-fashion data-debian data-minilm test-minilm oracles clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

build: $(BIN) ## build bin/aviary

$(BIN): $(SOURCES)
	@mkdir -p bin
	$(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o $@ ./cmd/aviary

demo: $(BIN) ## audit a network on real MNIST digits and write aviary-demo/report.html
	$(BIN) demo

test: check unit ## run every check and every test (under 8 minutes on 2 cores)

check: ## gofmt, vet, staticcheck
	@bad=$$(gofmt -l audit bench/*.go bench/ratio bench/debian bench/fashion bench/fetch bench/minilm bench/reproduce cmd internal interop kernels models report tensor) || exit 1; \
	 if [ -n "$$bad" ]; then echo "not gofmt-clean:"; echo "$$bad"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

unit:
	$(GO) test ./...

race: ## run the tests of everything concurrent under the race detector
	$(GO) test -race ./internal/... ./audit ./audit/onerun ./audit/scoreio ./report
	$(GO) test -race -skip 'Bound|Account|PERun|PEEmb' ./cmd/...
	$(GO) test -race -run 'Route|Merge|Simulate|Log' ./audit/pe ./audit/multirun
	$(GO) test -race -run 'Bootstrap|MaxT|Permut' ./audit/stats
	$(GO) test -race -short ./kernels/... ./tensor/... ./models/...
	$(GO) test -race -run 'FFT|OpacusPrinted|Laplace|Phases' ./audit/accounting

asan: ## run the kernel tests with the C code under AddressSanitizer
	$(GO) test -asan -short -skip TestReference ./kernels/... # which is all Go

avx512: ## run the kernel tests' AVX-512 paths on a machine without it (Debian: libsimde-dev)
	CGO_CFLAGS="-O2 -DAV_EMULATE_AVX512" $(GO) test ./kernels/...

fuzz: ## fuzz each parser of foreign files for 20 seconds
	@for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
	   for f in $$($(GO) test -list '^Fuzz' $$dir | grep '^Fuzz'); do \
	     echo "$$dir $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime 20s $$dir || exit 1; \
	   done; done

test-interop: ## run the tests of the Gorgonia module
	cd interop/gorgonia && $(GO) vet ./... && $(GO) test ./...

data: ## fetch the full MNIST (60,000 digits) into data/mnist
	sh bench/fetch-mnist.sh

peers: ## set up the Python environment that benchmarks compare against
	sh bench/peers/setup.sh

bench: $(BIN) ## measure Aviary against its peers, side by side, and print the ratios
	$(GO) run ./bench/ratio

reproduce-mnist: $(BIN) ## repeat the paper's MNIST row, 5 sets x 3 audits (needs make data; about ten minutes)
	sh bench/reproduce/run.sh mnist mnist

data-debian: ## fetch real text of 2,000 pseudo-users, for audits of Private Evolution, into data/debian
	sh bench/fetch-debian.sh

data-minilm: ## fetch the sentence encoder all-MiniLM-L6-v2 (83 MB) into data/minilm
	$(GO) run ./bench/minilm data/minilm

test-minilm: data-minilm ## compare the encoder's tokens and embeddings with those of sentence-transformers
	$(GO) test -count=1 -v -run 'MiniLM' ./models/hf ./models/hf/tokenizer ./cmd/aviary

data-fashion: ## fetch Fashion-MNIST into data/fashion
	$(GO) run ./bench/fashion data/fashion

reproduce-fashion: $(BIN) data-fashion ## the same recipe, untuned, on Fashion-MNIST
	sh bench/reproduce/run.sh data/fashion fashion

reproduce-interference: $(BIN) ## how much canaries disturb each other, by 840 trainings (needs make data; an hour)
	sh bench/reproduce/interference.sh

reproduce-ablation: $(BIN) ## figure 1(a): initialisation and regulariser, 2 sets x 3 audits (needs make data)
	sh bench/reproduce/ablation.sh

reproduce-tune: $(BIN) ## look for a better recipe on canary sets that are not reported (needs make data)
	sh bench/reproduce/tune.sh mnist mnist

oracles: ## make the committed oracle values of the tests again (needs make peers)
	sh bench/peers/oracles.sh

clean: ## remove what make built (not data, not runs)
	rm -rf bin
