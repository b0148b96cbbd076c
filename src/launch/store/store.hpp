// SPDX-License-Identifier: BSD-3-Clause
// Store: exchange over a key-value store that the program itself has, such as that of torchrun, in place of
// an MPI launcher.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "launch/launch.hpp"

namespace weft::launch::store {

/// Functions of the program. They may be called in any thread that calls MPI, one at a time.
struct Store {
  int rank = 0;
  int size = 1;
  std::string job;  ///< name of the job: the same on all its processes, and of no other job
  std::function<Status(const std::string& key, std::string_view value)> put;
  /// Waits until process `owner` has put the key.
  std::function<Result<std::string>(const std::string& key, int owner)> get;
};

/// Selects the store for connect(), before any launcher in the environment. Call once, before connect().
void use(Store store);
/// Returns whether use() was called.
[[nodiscard]] bool is_available();
/// Connects to the store of use().
[[nodiscard]] Result<std::unique_ptr<Exchange>> connect();

/// Connects to a store. Collective: each process waits for the host names of all others.
[[nodiscard]] Result<std::unique_ptr<Exchange>> connect_to(Store store);

}  // namespace weft::launch::store
