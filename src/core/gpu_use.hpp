// SPDX-License-Identifier: BSD-3-Clause
// GPU use: publishes the GPUs of this process in the wait table, and reports once a job that ranks share a
// GPU while others are idle. Threading: under the instance lock.
#pragma once
#include <cstdint>

namespace weft::core {

class Instance;

class GpuUse {
 public:
  /// Publishes GPUs that this process has used since the last call. Cheap if there are none.
  void look(Instance& instance);
  /// Publishes that this process uses no further GPU. Called once, by MPI_Finalize.
  void finish(Instance& instance);

 private:
  void publish(Instance& instance, uint64_t used);
  static void check(Instance& instance);

  uint64_t published_ = 0;  // bit n: device n
};

}  // namespace weft::core
