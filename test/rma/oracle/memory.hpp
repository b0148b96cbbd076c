// SPDX-License-Identifier: BSD-3-Clause
// Memory of origin buffers and of created windows: of the host (memory_host.cpp), or of the kind that
// TEST_MEMORY names (memory_device.cpp).
#pragma once
#include <cstddef>
#include <memory>

namespace oracle {

class Memory {
 public:
  virtual ~Memory() = default;
  [[nodiscard]] virtual char* data() = 0;
  virtual void write(size_t at, const char* from, size_t bytes) = 0;
  virtual void read(size_t at, char* to, size_t bytes) = 0;
};

void init_memory();  ///< call before MPI_Init
std::unique_ptr<Memory> allocate_memory(size_t bytes);

}  // namespace oracle
