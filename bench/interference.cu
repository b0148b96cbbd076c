// SPDX-License-Identifier: BSD-3-Clause
// The compute kernel of interference.c: arithmetic in registers, and, when there is a flag, waiting for it:
// every block at the flag, which is in host memory, or the first one there and the others at `relay`, on the
// GPU.

extern "C" __global__ void __launch_bounds__(256)
    weft_bench_work(const unsigned* flag, unsigned value, unsigned long long rounds, float* sink,
                    unsigned* relay) {
  float a = static_cast<float>(threadIdx.x), b = static_cast<float>(blockIdx.x);
  for (unsigned long long i = 0; i < rounds; ++i) {
    a = fmaf(a, 1.000001f, b);
    b = fmaf(b, 0.999999f, a);
  }
  if (a == 0.5f && b == 0.25f) *sink = a;     // so that the compiler keeps the loop
  if (flag != nullptr && threadIdx.x == 0) {  // one thread a block, now and then: else their reads fill PCIe
    const bool looks = relay == nullptr || blockIdx.x == 0;
    const volatile unsigned* const at = looks ? flag : relay;
    while (*at != value) __nanosleep(5000);
    if (looks && relay != nullptr) *static_cast<volatile unsigned*>(relay) = value;
  }
  __syncthreads();
}
