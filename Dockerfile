# Lockstep beside PyTorch for the CPU: docs/ci.md has the commands. The wheel is made in Debian 12, by whose packages and Python 3.11
# ./lockstep is tested; .devcontainer takes the first stage alone.
FROM debian:12 AS packages
COPY packages.txt /lockstep/
RUN apt-get update \
 && sed 's/[[:space:]].*//; /^#/d; /^$/d' /lockstep/packages.txt \
  | DEBIAN_FRONTEND=noninteractive xargs apt-get install --yes --no-install-recommends git ca-certificates \
 && rm -rf /var/lib/apt/lists/*

FROM packages AS build
COPY . /lockstep
WORKDIR /lockstep
RUN ./lockstep setup \
 && .venv/bin/python -m pip wheel --no-deps --wheel-dir /wheels .

FROM python:3.11-slim-bookworm
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "torch==2.11.*" numpy --index-url https://download.pytorch.org/whl/cpu \
 && pip install --no-cache-dir /wheels/lockstep-*.whl pytest
WORKDIR /project
ENTRYPOINT ["lockstep"]
CMD ["--help"]
