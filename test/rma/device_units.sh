#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weft_device.cuh in two source files of one program, compiled by nvcc: sh device_units.sh FOLDER_OF_THE_HEADER
# The linker refuses functions that are defined in both.
set -eu
command -v nvcc >/dev/null || { echo "there is no nvcc"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for unit in one two; do
  cat >"$folder/$unit.cu" <<END
#include <weft_device.cuh>
__global__ void kernel_$unit(const void* handle, const void* partitions) {
  const weft::device::Window window(handle);
  window.put(weft::device::Block(), 0, 0, handle, 8);
  window.target(0).atomic_add<int>(0, 1);
  window.wait_notify(weft::device::Warp(), 0);
  weft::device::PartitionedRequest(partitions).wait_arrived(weft::device::Thread(), 0);
}
void $unit() { kernel_$unit<<<1, 32>>>(nullptr, nullptr); }
END
done
cat >"$folder/main.cpp" <<'END'
void one();
void two();
int main(int argc, char**) {
  if (argc > 1) one(), two();
}
END
nvcc -std=c++17 -arch=sm_80 -I"$1" "$folder/one.cu" "$folder/two.cu" "$folder/main.cpp" -o "$folder/program"
"$folder/program"
echo "both files are in one program"
