// SPDX-License-Identifier: BSD-3-Clause
// The compute kernel of interference.c: arithmetic in registers, then a wait for `flag` in host memory, if
// set. All blocks poll the flag; or only the first block polls it, and the others poll `relay` in GPU memory.

extern "C" __global__ void __launch_bounds__(256)
    weft_bench_work(const unsigned* flag, unsigned value, unsigned long long rounds, float* sink,
                    unsigned* relay) {
  float a = static_cast<float>(threadIdx.x), b = static_cast<float>(blockIdx.x);
  for (unsigned long long i = 0; i < rounds; ++i) {
    a = fmaf(a, 1.000001f, b);
    b = fmaf(b, 0.999999f, a);
  }
  if (a == 0.5f && b == 0.25f) *sink = a;     // keeps the loop from being optimised away
  if (flag != nullptr && threadIdx.x == 0) {  // one thread per block, infrequently, to save PCIe bandwidth
    const bool polls_flag = relay == nullptr || blockIdx.x == 0;
    const volatile unsigned* const at = polls_flag ? flag : relay;
    while (*at != value) __nanosleep(5000);
    if (polls_flag && relay != nullptr) *static_cast<volatile unsigned*>(relay) = value;
  }
  __syncthreads();
}
