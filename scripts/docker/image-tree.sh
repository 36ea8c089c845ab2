#!/bin/sh
# image-tree BIN DEST PROGRAM…: lays out under DEST what an image adds to its base: each PROGRAM of the
# folder BIN as opt/turnmeter/bin/PROGRAM, and the shared libraries that it needs, without the C
# library's own, which every base image has. Nothing is executed: programs may be of another architecture.
set -eu
bin=$1
dest=$2
shift 2
mkdir -p "$dest/opt/turnmeter/bin"

needed() { # FILE
  readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'
}

# The multiarch folder of a file, by its machine; libraries stand there in base images too.
folder_of() {
  case $(readelf -h "$1" | sed -n 's/ *Machine: *//p') in
  *X86-64*) echo /usr/lib/x86_64-linux-gnu ;;
  *AArch64*) echo /usr/lib/aarch64-linux-gnu ;;
  *) echo "image-tree: '$1' is for an unknown machine" >&2 && exit 1 ;;
  esac
}

copy_libraries() { # FILE
  for library in $(needed "$1"); do
    case $library in
    ld-linux* | libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.* | libresolv.so.*) continue ;;
    esac
    [ -e "$dest$folder/$library" ] && continue
    if [ ! -e "$folder/$library" ]; then
      echo "image-tree: '$1' needs $library, which is not in $folder" >&2
      exit 1
    fi
    mkdir -p "$dest$folder"
    # under the name that the loader asks for: no links are needed
    cp -L "$folder/$library" "$dest$folder/$library"
    copy_libraries "$folder/$library"
  done
}

for program in "$@"; do
  cp "$bin/$program" "$dest/opt/turnmeter/bin/$program"
  folder=$(folder_of "$bin/$program")
  copy_libraries "$bin/$program"
done
