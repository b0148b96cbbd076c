// SPDX-License-Identifier: BSD-3-Clause
// Device memory and a stream for streams.F90.
#include "gpu_tool.c"

void* gpu_stream(void) {
  void* stream = NULL;
  check(((int (*)(void**, unsigned))symbol("cuStreamCreate"))(&stream, 1), "cuStreamCreate");
  return stream;
}

/// Enqueues a copy.
void gpu_copy(void* to, const void* from, size_t bytes, void* stream) {
  check(((int (*)(unsigned long long, unsigned long long, size_t, void*))symbol("cuMemcpyDtoDAsync_v2"))(
            (size_t)to, (size_t)from, bytes, stream),
        "cuMemcpyDtoDAsync_v2");
}

void gpu_wait(void* stream) {
  check(((int (*)(void*))symbol("cuStreamSynchronize"))(stream), "cuStreamSynchronize");
}
