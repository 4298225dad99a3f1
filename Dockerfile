# The program with what reports and clusters need, and torch's CPU build:
#   docker build -t transformer-cli .
# With CUDA, for a machine that has the NVIDIA Container Toolkit; `docker run` then needs `--gpus all`:
#   docker build -t transformer-cli --build-arg TORCH=cu130 .
# It works in the directory that is mounted at /work, as the user who starts it:
#   docker run --rm -v "$PWD:/work" -u "$(id -u):$(id -g)" transformer-cli init --from toy
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build
# A backend that uv knows: cpu, cu126, cu130, auto, …
ARG TORCH=cpu
ENV VIRTUAL_ENV=/opt/venv UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1 UV_PYTHON_DOWNLOADS=never
RUN pip install --no-cache-dir uv && uv venv /opt/venv
WORKDIR /source
# A layer of its own: torch is fetched again only where its version changes.
COPY constraints.txt ./
RUN uv pip install --torch-backend "$TORCH" --constraint constraints.txt torch
COPY . ./
RUN uv pip install --torch-backend "$TORCH" --constraint constraints.txt '.[report,cluster]'

FROM python:${PYTHON}-slim
COPY --from=build /opt/venv /opt/venv
# Any user may be given with -u, and has no home then.
ENV PATH=/opt/venv/bin:$PATH HOME=/tmp
RUN useradd --no-create-home learner
USER learner
WORKDIR /work
ENTRYPOINT ["transformer-cli"]
CMD ["--help"]
