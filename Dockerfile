# The programs for CPUs. scripts/container.py runs these steps without a container engine.
#
#   docker build --tag spag .
#   docker run --rm --volume spag-runs:/work/runs spag run configs/tiny.toml
#   docker run --rm --publish 8000:8000 --volume spag-runs:/work/runs spag serve --host 0.0.0.0 --model runs/tiny/spag-3/model

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN scripts/release-files.sh /out

FROM debian:bookworm-slim
COPY --from=build /out/bin /usr/local/bin
COPY --from=build /out/share /usr/local/share
COPY configs /work/configs
COPY data /work/data
RUN useradd --uid 1000 --create-home spag && mkdir /work/runs && chown spag:spag /work /work/runs
WORKDIR /work
USER spag
ENTRYPOINT ["spag"]
