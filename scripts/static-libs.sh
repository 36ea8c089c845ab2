#!/usr/bin/env bash
# Builds the static libraries of the static C agents from Debian's source packages.
#   scripts/static-libs.sh VARIANT DIR
# VARIANT: full (jansson; libcurl with TLS by mbedTLS; zlib) or min (jansson alone). DIR gets include/ and lib/, the
# file versions, and .made as the last file. Set CC (default musl-gcc) and, to
# cross-compile, HOST (a GNU triplet such as aarch64-linux-gnu). Sources come through the machine's own apt configuration.
set -euo pipefail

usage() {
  echo "usage: static-libs.sh full|min DIR" >&2
  exit 2
}
[ $# -eq 2 ] || usage
variant=$1
case "$variant" in full | min) ;; *) usage ;; esac
mkdir -p "$2"
out=$(cd "$2" && pwd)
CC=${CC:-musl-gcc}
HOST=${HOST:-}
read -ra host_flag <<<"${HOST:+--host=$HOST}"
AR=${HOST:+$HOST-}ar
RANLIB=${HOST:+$HOST-}ranlib
jobs=$(nproc)

if [ ! -f /etc/debian_version ]; then
  echo "static-libs.sh: this system has no source packages of Debian; the contender c-dynamic needs none" >&2
  exit 1
fi
for tool in dpkg-source autoreconf libtoolize "${CC%% *}" make; do
  if ! command -v "$tool" >/dev/null; then
    echo "static-libs.sh: '$tool' is missing; install the packages with: scripts/deps.sh static" >&2
    exit 1
  fi
done

work=$(mktemp -d)
log=$work/log # of the step that is under way: when it fails, its end is shown
builds=()     # running at once, each a process group of its own
finish() {
  local status=$? build
  trap '' INT TERM
  for build in "${builds[@]}"; do
    kill -- "-$build" || true
    wait "$build" || true
  done 2>/dev/null
  [ $status -eq 0 ] || tail -n 40 "$log" >&2
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The machine's own sources, with deb-src, in a configuration of ours.
mkdir -p "$work/lists/partial" "$work/parts" "$work/src"
for file in /etc/apt/sources.list.d/*.sources; do
  [ -f "$file" ] && sed 's/^Types:.*/Types: deb-src/' "$file" >"$work/parts/$(basename "$file")"
done
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
  [ -f "$file" ] && sed -n 's/^deb /deb-src /p' "$file" >"$work/parts/$(basename "$file").list"
done
apt_with=(-o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$work/parts" -o "Dir::State::lists=$work/lists" -o APT::Sandbox::User=root)
apt-get "${apt_with[@]}" update >"$log" 2>&1
packages=(jansson)
[ "$variant" = full ] && packages+=(curl mbedtls zlib)

# The newest version that the mirror really has: one that is being updated may list others. Where it has none
# with Debian's patches, the upstream tarball of the newest, which the signed lists vouch for as well.
get_source() { # PACKAGE
  local version
  for version in $(apt-cache "${apt_with[@]}" showsrc --only-source "$1" | sed -n 's/^Version: //p' | sort -rVu); do
    if apt-get "${apt_with[@]}" source "$1=$version" >>"$log" 2>&1; then
      echo "$1 $version" >>"$out/versions"
      return
    fi
    rm -f "$1"_*
  done
  apt-get "${apt_with[@]}" source --download-only --tar-only "$1" >>"$log" 2>&1
  mkdir "$1-upstream"
  tar -x -C "$1-upstream" --strip-components=1 -f "$1"_*.orig.tar.[gx]z >>"$log" 2>&1
  version=$(apt-cache "${apt_with[@]}" showsrc --only-source "$1" | sed -n 's/^Version: //p' | sort -rV | sed 1q)
  echo "$1 $version, without Debian's patches" >>"$out/versions"
  echo "static-libs.sh: $(tail -n 1 "$out/versions"), which the mirror does not have" >&2
}
cd "$work/src"
rm -f "$out/versions"
for package in "${packages[@]}"; do
  get_source "$package"
done

cflags="-Os -fPIE -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables"
[ "$variant" = full ] && cflags+=" -fstack-protector-strong"

# Only the library and its headers: curl's command needs parts that are left out here.
build_autotools() { # SOURCE "FOLDER…" FLAG…
  local source=$1 folders=$2 folder
  shift 2
  (cd "$source" && { [ -x configure ] || autoreconf -fi; } &&
    ./configure "${host_flag[@]}" --prefix="$out" --disable-shared --enable-static "$@" CC="$CC" AR="$AR" RANLIB="$RANLIB" CFLAGS="$cflags" \
      CPPFLAGS="-I$out/include" LDFLAGS="-L$out/lib" &&
    for folder in $folders; do make -C "$folder" -j"$jobs" install || exit 1; done) >>"$log" 2>&1
}

build_jansson() {
  build_autotools jansson-*/ src
}

build_zlib() {
  (cd zlib-*/ && CC="$CC" AR="$AR" RANLIB="$RANLIB" CFLAGS="$cflags" ./configure --static --prefix="$out" &&
    make -j"$jobs" libz.a && make install) >>"$log" 2>&1
}

build_mbedtls() {
  (cd mbedtls-*/ && make -j"$jobs" lib CC="$CC" AR="$AR" CFLAGS="$cflags" &&
    cp library/*.a "$out/lib/" && cp -r include/mbedtls include/psa "$out/include/") >>"$log" 2>&1
}

# HTTP and TLS, of which the agent uses connections.
build_curl() {
  build_autotools curl-*/ "lib include" --with-mbedtls="$out" --with-zlib="$out" --with-ca-bundle=/etc/ssl/certs/ca-certificates.crt --enable-ipv6 \
    --enable-http --disable-ftp --disable-file --disable-ldap --disable-ldaps --disable-rtsp \
    --disable-dict --disable-telnet --disable-tftp --disable-pop3 --disable-imap --disable-smb --disable-smtp --disable-gopher --disable-mqtt \
    --disable-proxy --disable-manual --disable-threaded-resolver --disable-cookies --disable-basic-auth --disable-bearer-auth --disable-digest-auth \
    --disable-kerberos-auth --disable-negotiate-auth --disable-aws --disable-http-auth --disable-doh --disable-mime --disable-netrc --disable-ntlm \
    --disable-progress-meter --disable-dnsshuffle --disable-get-easy-options --disable-alt-svc --disable-hsts --disable-websockets --disable-tls-srp \
    --disable-socketpair --disable-headers-api --disable-form-api --disable-libcurl-option --disable-docs --without-brotli --without-zstd --without-libpsl \
    --without-libidn2 --without-nghttp2 --without-librtmp --without-libssh2 --without-ca-path
}

# Most of the time is configure's, which uses one CPU: what does not need each other is built at once.
mkdir -p "$out/lib" "$out/include"
set -m
at_once=(build_jansson)
[ "$variant" = full ] && at_once+=(build_zlib build_mbedtls)
for build in "${!at_once[@]}"; do
  (log=$work/log.$build && "${at_once[$build]}") &
  builds[build]=$!
done
set +m
for build in "${!builds[@]}"; do
  log=$work/log.$build
  wait "${builds[$build]}"
  unset "builds[$build]"
done
log=$work/log.curl
[ "$variant" = min ] || build_curl
rm -rf "${out:?}/bin" "${out:?}/share" "$out/lib/pkgconfig" "$out"/lib/*.la
touch "$out/.made"
