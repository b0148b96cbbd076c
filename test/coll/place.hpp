// SPDX-License-Identifier: BSD-3-Clause
// Where the buffers of a collective lie: the oracle's fields themselves (place_host.cpp), or twins of them in
// the memory that TEST_MEMORY names, host, pinned, device, managed, pool or mixed (place_device.cpp).
#pragma once
#include "reference/coll.hpp"

namespace expect {

void open_places();  ///< before MPI_Init

/// The address to give to MPI; belongs to the next Places.
void* place(reference::Field& field);

/// The twins that were placed since the last one; given back at the end.
class Places {
 public:
  Places() = default;
  ~Places();
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;
  void upload() const;
  void download() const;
};

}  // namespace expect
