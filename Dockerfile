# All images of Turnmeter, a named stage each (docs/containers.md). Build stages run on the building
# machine and cross-compile; final stages only copy, so that a foreign platform needs no emulation.

ARG BASE_IMAGE=debian:trixie-slim
# The same system for the building machine; differs only where a tag holds one platform.
ARG BUILD_IMAGE=${BASE_IMAGE}
ARG CONTENDER_IMAGE=${BASE_IMAGE}

# ---- compilers for the target, which all native programs need
FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS compilers
ARG BUILDARCH TARGETARCH
COPY scripts/docker/target.sh /usr/local/bin/target
RUN --mount=type=cache,target=/var/cache/apt,id=turnmeter-apt,sharing=locked \
    rm -f /etc/apt/apt.conf.d/docker-clean \
    && { [ "$TARGETARCH" = "$BUILDARCH" ] || dpkg --add-architecture "$TARGETARCH"; } \
    && export DEBIAN_FRONTEND=noninteractive \
    && apt-get -qq update \
    && target apt-get -qq install -y --no-install-recommends make binutils file gcc-GNU libc6-dev:ARCH musl-dev:ARCH >/dev/null

# ---- programs in C
FROM compilers AS toolchain
ARG TARGETARCH
RUN --mount=type=cache,target=/var/cache/apt,id=turnmeter-apt-toolchain,sharing=locked \
    export DEBIAN_FRONTEND=noninteractive \
    && apt-get -qq update \
    && target apt-get -qq install -y --no-install-recommends \
       libmicrohttpd-dev:ARCH libjansson-dev:ARCH libcurl4-openssl-dev:ARCH libmd-dev:ARCH zlib1g-dev:ARCH >/dev/null

# Libraries of the static agents in C, from Debian's source packages; made anew when the script changes only.
FROM compilers AS static-toolchain
RUN --mount=type=cache,target=/var/cache/apt,id=turnmeter-apt-static,sharing=locked \
    export DEBIAN_FRONTEND=noninteractive \
    && apt-get -qq update \
    && apt-get -qq install -y --no-install-recommends dpkg-dev autoconf automake libtool ca-certificates >/dev/null

FROM static-toolchain AS static-libs-full
ARG TARGETARCH
COPY scripts/static-libs.sh /usr/local/bin/static-libs
RUN target env CC="TRIPLET-gcc -specs /usr/lib/MUSL/musl-gcc.specs" HOST=TRIPLET static-libs full /static/full

FROM static-toolchain AS static-libs-min
ARG TARGETARCH
COPY scripts/static-libs.sh /usr/local/bin/static-libs
RUN target env CC="TRIPLET-gcc -specs /usr/lib/MUSL/musl-gcc.specs" HOST=TRIPLET static-libs min /static/min

# What needs no static library is compiled while those are still being made.
FROM toolchain AS programs
ARG TARGETARCH
WORKDIR /src
COPY Makefile VERSION ./
COPY common common
COPY mockllm mockllm
COPY collector collector
COPY agent/c agent/c
COPY agent/floor agent/floor
RUN target make -s -j"$(nproc)" BUILD=/build CC=TRIPLET-gcc \
    STATIC_CC="TRIPLET-gcc -specs /usr/lib/MUSL/musl-gcc.specs" binaries floor
COPY --from=static-libs-full /static /static
COPY --from=static-libs-min /static /static
RUN target make -s -j"$(nproc)" BUILD=/build CC=TRIPLET-gcc \
    STATIC_CC="TRIPLET-gcc -specs /usr/lib/MUSL/musl-gcc.specs" STATIC_LIBS=/static static \
    && target TRIPLET-strip /build/prefix/bin/*
# One tree an image: the programs, and the shared libraries they need that the base image may lack.
COPY scripts/docker/image-tree.sh /usr/local/bin/image-tree
RUN image-tree /build/prefix/bin /image/launcher launcher tmtool \
    && image-tree /build/prefix/bin /image/mockllm mockllm tmtool \
    && image-tree /build/prefix/bin /image/collector collector \
    && image-tree /build/prefix/bin /image/agent-c agent-c \
    && image-tree /build/prefix/bin /image/agent-c-min agent-c-min \
    && image-tree /build/prefix/bin /image/agent-c-dynamic agent-c-dynamic \
    && image-tree /build/prefix/bin /image/agent-floor agent-floor

# ---- the agent in Rust; its crates are Debian's packages, as in scripts/rust-stage.sh
FROM compilers AS cargo
ARG TARGETARCH
COPY agent/rust/packages.txt /src/
RUN --mount=type=cache,target=/var/cache/apt,id=turnmeter-apt-cargo,sharing=locked \
    export DEBIAN_FRONTEND=noninteractive \
    && apt-get -qq update \
    && target apt-get -qq install -y --no-install-recommends $(cat /src/packages.txt) >/dev/null

FROM cargo AS rust
ARG TARGETARCH
WORKDIR /src
COPY agent/rust/Cargo.toml ./
COPY agent/rust/src src
COPY scripts/docker/cargo-build.sh /usr/local/bin/cargo-build
RUN cargo-build /src /image/rust/opt/turnmeter/bin agent-rust

# ---- JavaScript runtimes, pinned by the lock file
FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS npm
RUN --mount=type=cache,target=/var/cache/apt,id=turnmeter-apt-npm,sharing=locked \
    rm -f /etc/apt/apt.conf.d/docker-clean \
    && export DEBIAN_FRONTEND=noninteractive \
    && apt-get -qq update \
    && apt-get -qq install -y --no-install-recommends ca-certificates nodejs npm >/dev/null

FROM npm AS runtimes
ARG TARGETARCH
ARG NPM_CONFIG_REGISTRY
WORKDIR /src
COPY scripts/runtimes.sh scripts/
COPY agent/js/runtimes agent/js/runtimes
# site_ca: a certificate authority of the site, where its proxy signs; empty elsewhere
RUN --mount=type=cache,target=/root/.npm \
    --mount=type=secret,id=site_ca \
    if [ -s /run/secrets/site_ca ]; then export NODE_EXTRA_CA_CERTS=/run/secrets/site_ca; fi; \
    if [ -z "$NPM_CONFIG_REGISTRY" ]; then unset NPM_CONFIG_REGISTRY; fi; \
    case $TARGETARCH in amd64) cpu=x64 ;; *) cpu=$TARGETARCH ;; esac; \
    scripts/runtimes.sh /runtimes "$cpu"

# ---- images
FROM ${BASE_IMAGE} AS mockllm
COPY --from=programs /image/mockllm /
USER 1000:1000
ENTRYPOINT ["/opt/turnmeter/bin/mockllm"]

FROM ${BASE_IMAGE} AS collector
COPY --from=programs /image/collector /
COPY configs /opt/turnmeter/configs
USER 0:0
ENTRYPOINT ["/opt/turnmeter/bin/collector"]

# What every contender's image has: the launcher as PID 1, the suite's tool.
FROM ${BASE_IMAGE} AS agent
COPY --from=programs /image/launcher /
WORKDIR /scratch
USER 1000:1000
ENTRYPOINT ["/opt/turnmeter/bin/launcher"]

FROM agent AS agent-c
COPY --from=programs /image/agent-c /

FROM agent AS agent-c-min
COPY --from=programs /image/agent-c-min /

FROM agent AS agent-c-dynamic
COPY --from=programs /image/agent-c-dynamic /

# No contender: the least that an image with the agent takes, for the table of sizes.
FROM scratch AS agent-c-scratch
COPY --from=programs /image/agent-c /
USER 1000:1000
ENTRYPOINT ["/opt/turnmeter/bin/agent-c"]

FROM agent AS agent-floor
COPY --from=programs /image/agent-floor /

FROM agent AS agent-rust
COPY --from=rust /image/rust /

FROM agent AS agent-js
COPY agent/js/*.mjs /opt/turnmeter/js/

FROM agent-js AS agent-node
COPY --from=runtimes /runtimes/node /opt/turnmeter/runtimes/node

FROM agent-js AS agent-bun
COPY --from=runtimes /runtimes/bun /opt/turnmeter/runtimes/bun

FROM agent-js AS agent-deno
COPY --from=runtimes /runtimes/deno /opt/turnmeter/runtimes/deno

# A contender of someone else's: its own image with the launcher and the tool added.
FROM ${CONTENDER_IMAGE} AS agent-other
COPY --from=programs /image/launcher /
WORKDIR /scratch
USER 1000:1000
ENTRYPOINT ["/opt/turnmeter/bin/launcher"]
