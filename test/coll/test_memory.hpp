// SPDX-License-Identifier: BSD-3-Clause
// Memory of a collective's buffers: the oracle's fields themselves (test_memory_host.cpp), or copies of the
// fields in the memory that TEST_MEMORY names: host, pinned, device, managed, pool, mapped, unshared or mixed
// (test_memory_device.cpp).
#pragma once
#include <memory>
#include <vector>

#include "reference/coll.hpp"

namespace expect {

void init_memory();  ///< call before MPI_Init

/// From now on in this memory, instead of that of TEST_MEMORY. `reused`: part of the copies take the memory
/// of earlier ones, so that some allocations last long.
void use_memory(const char* name, bool reused);

/// The buffer address to pass to MPI; the next FieldCopies::upload owns the copy.
void* buffer_for(reference::Field& field);

/// Copies of fields; freed by the destructor.
class FieldCopies {
 public:
  FieldCopies();
  ~FieldCopies();
  FieldCopies(const FieldCopies&) = delete;
  FieldCopies& operator=(const FieldCopies&) = delete;
  /// Takes over the copies that nobody owns yet, and writes the fields to all copies.
  void upload();
  void download() const;

 private:
  struct Copy;
  std::vector<std::unique_ptr<Copy>> copies_;
};

}  // namespace expect
