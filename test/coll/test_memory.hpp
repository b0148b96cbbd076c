// SPDX-License-Identifier: BSD-3-Clause
// Memory of a collective's buffers: the oracle's fields themselves (test_memory_host.cpp), or copies of the
// fields in the memory that TEST_MEMORY names: host, pinned, device, managed, pool or mixed
// (test_memory_device.cpp).
#pragma once
#include "reference/coll.hpp"

namespace expect {

void init_memory();  ///< call before MPI_Init

/// The buffer address to pass to MPI; the next FieldCopies owns the copy.
void* buffer_for(reference::Field& field);

/// The copies made since the previous FieldCopies; freed by the destructor.
class FieldCopies {
 public:
  FieldCopies() = default;
  ~FieldCopies();
  FieldCopies(const FieldCopies&) = delete;
  FieldCopies& operator=(const FieldCopies&) = delete;
  void upload() const;
  void download() const;
};

}  // namespace expect
