// SPDX-License-Identifier: BSD-3-Clause
// Memory of a program: words that the host writes and compares, and the address that is passed to MPI: the
// same memory (memory_host.cpp), or a copy on the GPU of this rank (memory_device.cpp).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace programs {

void init_memory();  ///< call before MPI_Init

class Memory {
 public:
  explicit Memory(size_t words);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] uint32_t* host() { return words_.data(); }
  /// The address of word `first` for MPI.
  [[nodiscard]] void* address(size_t first);
  void upload(size_t first, size_t n);
  void download(size_t first, size_t n);

 private:
  struct Copy;
  std::vector<uint32_t> words_;
  std::unique_ptr<Copy> copy_;  // on the GPU
};

}  // namespace programs
