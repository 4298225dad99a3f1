#!/bin/sh
# Collect what `python -m benchmarks.gpu` needs on a bare machine: wheels for its Python in .whl,
# and Multi30k in .multi30k; git ignores both. Run it in the checkout:
#   MULTI30K_DIR=... sh benchmarks/gpu/carry.sh
# Then copy the checkout with .whl and .multi30k to the machine, and run in the copy:
#   python3 -m pip install -q --no-index --no-deps --no-compile --upgrade --target /tmp/site .whl/*.whl
#   export PYTHONPATH=/tmp/site MULTI30K_DIR=$PWD/.multi30k
#   python3 -m benchmarks.gpu --out DIR
set -eu
rm -rf .whl .multi30k
mkdir .whl .multi30k
python3 -m pip download --quiet --no-deps --only-binary=:all: --dest .whl \
  --python-version "${PYTHON_THERE:-3.12}" --implementation cp \
  --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
  --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
  --requirement benchmarks/gpu/carried.txt
cp "${MULTI30K_DIR:-data/multi30k}"/*.gz .multi30k/
chmod u+w .multi30k/*
du -sh .whl .multi30k
