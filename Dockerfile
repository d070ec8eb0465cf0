# The programs for CPUs. scripts/container.py runs these steps without a container engine.
#
#   docker build --tag spag .
#   docker run --rm --volume spag-runs:/spag/runs spag run configs/tiny.toml
#   docker run --rm --publish 8000:8000 --volume spag-runs:/spag/runs spag serve --host 0.0.0.0 runs/tiny/spag-3/model \
#       --prompts configs/tiny-prompts.json

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN scripts/release-files.sh /out

FROM debian:bookworm-slim
COPY --from=build /out/bin /usr/local/bin
COPY --from=build /out/share /usr/local/share
COPY configs /spag/configs
COPY data /spag/data
RUN useradd --uid 1000 --create-home spag && mkdir /spag/runs && chown spag:spag /spag /spag/runs
WORKDIR /spag
USER spag
ENTRYPOINT ["spag"]
