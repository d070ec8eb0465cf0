#!/usr/bin/env bash
# Installs a CUDA 13.0 toolkit from PyPI's wheels into a folder, to build with `--features cuda` without a GPU, without
# root and without NVIDIA's installer. About 1.4 GB. See docs/CUDA.md.
#
#   scripts/make-cuda-home.sh DIR        then:  . DIR/env.sh
#
# Needs python3 with pip, and a C compiler (CC). PIP is the pip command, "python3 -m pip" by default.
set -euo pipefail

[ $# -eq 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
home=$(cd "$1" && pwd)
read -ra pip <<<"${PIP:-python3 -m pip}"
cc=${CC:-cc}

# 13.0 rather than newer: a driver accepts PTX of its own CUDA version and older ones, and driver 580 supports 13.0.
wheels=(
  nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88    # the compiler
  nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85                     # its headers and runtime
  nvidia-cublas==13.1.0.3 nvidia-curand==10.4.0.35 nvidia-cuda-nvrtc==13.0.88 # what candle links
  nvidia-nccl-cu13==2.28.9                                                   # what several GPUs need
)

install_wheels() {
  "${pip[@]}" install --quiet --upgrade --no-deps --no-compile --only-binary=:all: --target "$home/wheels" "${wheels[@]}"
}

# The layout of an installed toolkit: bin, include, nvvm, lib, and lib64, which nvcc and build scripts search.
lay_out() {
  local part
  for part in bin include nvvm lib; do ln -sfn "wheels/nvidia/cu13/$part" "$home/$part"; done
  ln -sfn wheels/nvidia/cu13/lib "$home/lib64"
  ln -sfn lib "$home/wheels/nvidia/cu13/lib64"
  ln -sf ../../nccl/include/nccl.h "$home/include/nccl.h"
  ln -sf ../../nccl/lib/libnccl.so.2 "$home/lib/libnccl.so.2"
}

# Wheels contain only libNAME.so.VERSION; the linker's -lNAME needs libNAME.so.
name_libraries() {
  local library file
  for library in "$home"/lib/lib*.so.*; do
    file=${library##*/}
    [[ $file == *.alt.so* ]] || ln -sf "$file" "$home/lib/${file%%.so.*}.so"
  done
}

# libcuda belongs to the driver and is in no wheel. For linking, a stub that defines all functions of cuda.h suffices. Every
# function returns CUDA_ERROR_STUB_LIBRARY.
make_driver_stub() {
  mkdir -p "$home/lib/stubs"
  printf '#include <cuda.h>\n' | "$cc" -E -P -I"$home/include" -xc - | tr '\n' ' ' |
    grep -oE '\bcu[A-Z][A-Za-z0-9_]* *\(' | tr -d ' (' | sort -u |
    sed 's/.*/int &(void) { return 34; }/' |
    "$cc" -shared -fPIC -nostdlib -Wl,-soname,libcuda.so.1 -xc - -o "$home/lib/stubs/libcuda.so"
}

write_environment() {
  cat >"$home/env.sh" <<ENV
export CUDA_HOME=$home CUDA_PATH=$home
export PATH=$home/bin:\$PATH
ENV
}

install_wheels
lay_out
name_libraries
make_driver_stub
write_environment
"$home/bin/nvcc" --version | grep release
echo "next: . $home/env.sh"
