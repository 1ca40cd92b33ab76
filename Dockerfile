# A server of relatum. See docs/containers.md.
#
#     docker build -t relatum .
#     docker run -p 127.0.0.1:8765:8765 --read-only --tmpfs /tmp relatum
#
# For a GPU: docker build --target cuda --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu130 -t relatum:cuda .
ARG PYTHON=3.12

# Everything is installed into /opt/relatum by a stage that has a compiler. The compiled code is put into the package.
FROM python:${PYTHON}-slim AS build
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG EXTRAS=web
ARG RELATUM_COMPILE=1
ENV PATH=/opt/relatum/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /build
RUN python -m venv /opt/relatum
COPY constraints.txt ./
COPY requirements/run.txt requirements/
# torch has a version but no hash: its builds for CPUs and for CUDA are different files of the same version. A build for
# CUDA brings a version of triton. The C++ headers and tests of torch are 145 MB that nothing here uses.
RUN pip install --no-deps --require-hashes --requirement requirements/run.txt \
    && grep -v "^triton==" constraints.txt > pins.txt \
    && pip install --constraint pins.txt --index-url "${TORCH_INDEX}" torch \
    && rm -rf /opt/relatum/lib/python*/site-packages/torch/include /opt/relatum/lib/python*/site-packages/torch/test
COPY . .
RUN pip install --no-build-isolation --constraint pins.txt ".[${EXTRAS}]"

# The image has no compiler, no sources and no cache of pip.
FROM python:${PYTHON}-slim AS base
COPY --from=build /opt/relatum /opt/relatum
ENV PATH=/opt/relatum/bin:$PATH PYTHONUNBUFFERED=1 HOME=/tmp RELATUM_CACHE=/tmp/relatum
USER 10001:10001
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8765/health', timeout=4)"]
ENTRYPOINT ["relatum"]
CMD ["serve", "--host", "0.0.0.0"]

# Triton compiles its launcher in C on the first use of a GPU.
FROM base AS cuda
USER 0
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
USER 10001:10001

FROM base AS cpu
