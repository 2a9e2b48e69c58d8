# For developers; users install the package with R. GNU make.
#
#   make demo      the main job on real data: figures, and a picture in demo-out/
#   make test      engine tests under ASan and UBSan, then testthat
#   make check     test, then R CMD check --as-cran
#   make bench     timings (bench/)
#   make cuda      the tests with a GPU
#   make fake-cuda the same tests with a GPU that is not there: src/cuda runs kernels on the CPU (tests/fake-cuda)
#   make bench-cuda timings on a GPU (bench/cuda/)
#   make fuzz T=60 from garbage to source and small runs, for T seconds under the sanitizers
#   make document  man/ and NAMESPACE from the comments in R/
#   make clean
#
# All of them install what is missing (Debian packages) and build in build/.
.DEFAULT_GOAL := test
.PHONY: setup demo install test engine objects testthat golden check build bench fuzz document autoconf cuda fake-cuda bench-cuda clean

B := build
LIB := $(B)/library
JOBS := 2
RSCRIPT := R_LIBS="$(abspath $(LIB))$${R_LIBS:+:$$R_LIBS}" Rscript
VERSION := $(shell sed -n 's/^Version: *//p' DESCRIPTION)
TARBALL := $(B)/keops_$(VERSION).tar.gz

# ---- set-up: R and what the tests, the demo and the checks load ----
DEBIAN := gcc make r-base-core r-base-dev r-cran-testthat r-cran-ggplot2
HAVE_ALL := command -v gcc && Rscript -e 'for (p in c("testthat", "ggplot2")) loadNamespace(p)'
setup:
	@missing=; \
	for p in $(DEBIAN); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	[ -z "$$missing" ] || { $(HAVE_ALL); } >/dev/null 2>&1 || { \
	  command -v apt-get >/dev/null || { echo "install R with testthat and ggplot2, and gcc" >&2; exit 1; }; \
	  sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  echo "installing:$$missing"; \
	  $$sudo apt-get update && \
	  $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$missing; \
	}

# ---- the package in a library of its own ----
SOURCES := DESCRIPTION NAMESPACE configure cleanup $(wildcard R/* src/* src/engine/* src/cuda/* inst/include/* inst/examples/*)
install: setup $(B)/installed
$(B)/installed: $(filter-out %.o %.so src/Makevars,$(SOURCES))
	@mkdir -p $(LIB) $(B)/source
	@rm -rf $(B)/source && mkdir -p $(B)/source
	@cp -r DESCRIPTION NAMESPACE LICENSE R man inst configure cleanup $(B)/source
	@mkdir -p $(B)/source/src/engine $(B)/source/src/cuda
	@cp src/*.[ch] src/Makevars.in $(B)/source/src && cp src/engine/*.[ch] $(B)/source/src/engine
	@cp src/cuda/*.[ch] $(B)/source/src/cuda
	MAKEFLAGS=-j$(JOBS) R CMD INSTALL --no-docs -l $(LIB) $(B)/source
	@touch $@

# ---- tests ----
test: setup
	@status=0; \
	$(MAKE) --no-print-directory -k -j$(JOBS) engine || status=1; \
	$(MAKE) --no-print-directory testthat || status=1; \
	exit $$status

# The engine once, each test with all of it, under the sanitizers. OpenMP is on, so threads are tested.
CHECK_CC := gcc
CHECK_FLAGS := -std=gnu11 -O1 -g -Wall -Wextra -fsanitize=address,undefined -fno-sanitize-recover=undefined -fopenmp
ENGINE_OBJECTS := $(patsubst src/engine/%.c,$(B)/engine/%.o,$(wildcard src/engine/*.c)) \
  $(patsubst src/cuda/%.c,$(B)/engine/%.o,$(wildcard src/cuda/*.c))
ENGINE_TESTS := $(patsubst tests/engine/%.c,%,$(wildcard tests/engine/test_*.c))
ENGINE_HEADERS := $(wildcard src/engine/*.h src/cuda/*.h inst/include/*.h tests/engine/*.h)

engine: setup objects $(addprefix run-,$(ENGINE_TESTS))

# src/Makevars.in lists objects by hand: none may be missing
objects:
	@for f in src/engine/*.c src/cuda/*.c; do o=$${f#src/}; o=$${o%.c}.o; \
	  grep -qF "$$o" src/Makevars.in || { echo "src/Makevars.in lacks $$o" >&2; exit 1; }; done

$(B)/engine/%.o: src/engine/%.c $(ENGINE_HEADERS)
	@mkdir -p $(@D)
	@echo "cc $<"; $(CHECK_CC) $(CHECK_FLAGS) -Isrc/engine -Iinst/include -c -o $@ $<

$(B)/engine/%.o: src/cuda/%.c $(ENGINE_HEADERS)
	@mkdir -p $(@D)
	@echo "cc $<"; $(CHECK_CC) $(CHECK_FLAGS) -Isrc/engine -Isrc/cuda -Iinst/include -c -o $@ $<

$(B)/engine/engine.a: $(ENGINE_OBJECTS)
	@rm -f $@; ar rcs $@ $^

LINK_TEST = @echo "cc $<"; $(CHECK_CC) $(CHECK_FLAGS) -Isrc/engine -Isrc/cuda -Iinst/include -Itests/engine -o $@ $< \
  $(B)/engine/engine.a -ldl -lpthread -lm
.SECONDARY: $(ENGINE_OBJECTS) $(addprefix $(B)/engine/,$(ENGINE_TESTS))
$(B)/engine/test_%: tests/engine/test_%.c $(B)/engine/engine.a $(ENGINE_HEADERS)
	$(LINK_TEST)

# gcc up to 13 misaligns 64-byte locals in ASan's fake stack frames (its PR 110027): AVX-512 would fault.
.PHONY: $(addprefix run-,$(ENGINE_TESTS))
$(addprefix run-,$(ENGINE_TESTS)): run-%: $(B)/engine/%
	@ASAN_OPTIONS=detect_stack_use_after_return=0 $(B)/engine/$* >$(B)/engine/$*.log 2>&1; status=$$?; \
	  echo "---- $*"; cat $(B)/engine/$*.log; exit $$status

testthat: install
	$(RSCRIPT) .ci/testthat.R

# ---- GPUs ----
cuda: install
	$(RSCRIPT) -e 'if (!is.null(p <- keops::keops_info()$$cuda$$problem)) stop(p)'
	$(RSCRIPT) .ci/testthat.R

FAKE := $(B)/fake-cuda
$(FAKE)/libcuda.so.1: tests/fake-cuda/fake_driver.c src/cuda/cuda_api.h
	@mkdir -p $(@D)
	$(CHECK_CC) -O2 -Wall -Wextra -std=gnu11 -fPIC -shared -Isrc/cuda -Isrc/engine -o $@ $< -ldl
$(FAKE)/libnvrtc.so.13: tests/fake-cuda/fake_nvrtc.c
	@mkdir -p $(@D)
	$(CHECK_CC) -O2 -Wall -Wextra -std=gnu11 -fPIC -shared -o $@ $<
FAKE_RUN := FAKE_CUDA="$(abspath tests/fake-cuda)" LD_LIBRARY_PATH="$(abspath $(FAKE))$${LD_LIBRARY_PATH:+:$$LD_LIBRARY_PATH}"
fake-cuda: install $(FAKE)/libcuda.so.1 $(FAKE)/libnvrtc.so.13
	$(FAKE_RUN) $(RSCRIPT) .ci/testthat.R

bench-cuda: install
	$(RSCRIPT) bench/cuda/run.R

# write tests/engine/golden anew; read the difference before you commit it
golden: $(B)/engine/test_golden
	$< --renew

# ---- checks and benches ----
build: setup
	@mkdir -p $(B)
	cd $(B) && R CMD build ..

MANUAL := $(if $(shell kpsewhich inconsolata.sty 2>/dev/null),,--no-manual)
check: test build
	cd $(B) && _R_CHECK_FORCE_SUGGESTS_=false R CMD check --as-cran $(MANUAL) $(notdir $(TARBALL))

demo: install
	@mkdir -p demo-out
	$(RSCRIPT) inst/examples/diamonds.R demo-out

bench: install
	$(RSCRIPT) bench/run.R

T := 60
fuzz: setup
	@$(MAKE) --no-print-directory $(B)/engine/fuzz_parse
	$(B)/engine/fuzz_parse -t $(T) -o $(B)/fuzz-failure.txt tests/engine/corpus/*.txt
	@$(MAKE) --no-print-directory $(B)/engine/fuzz_values
	$(B)/engine/fuzz_values -t $(T) -c 500

$(B)/engine/fuzz_%: tests/engine/fuzz_%.c $(B)/engine/engine.a $(ENGINE_HEADERS)
	$(LINK_TEST)

# ---- generated files that are committed ----
document: install
	$(RSCRIPT) -e 'roxygen2::roxygenise(load_code = "installed")'

autoconf:
	autoconf

clean:
	./cleanup
	rm -rf $(B) demo-out
