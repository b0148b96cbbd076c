// SPDX-License-Identifier: BSD-3-Clause
// The communicators of this process whose calls compiled functions make, and the end of all calls after the
// first error. Threading: any thread.
#pragma once
#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "jax/kernels.hpp"

namespace weft::jax {

/// In the order in which the process has made them: compiled functions contain indices, which are the same in
/// every run, and may be kept in a cache.
constexpr int kMaxCommunicators = 4096;

struct State {
  std::atomic<MPI_Comm> communicators[kMaxCommunicators];
  std::unique_ptr<Kernels> kernels[kMaxCommunicators];  ///< null: the host executes its calls
  std::atomic<int> used{0};
  std::atomic<int64_t> stream_waits{0};
  std::atomic<const std::string*> failure{nullptr};  ///< the first error of a call; never freed
  std::mutex mutex;                                  ///< of new communicators and kernels, and of end_calls()
};
State& state();

/// Ends the calls of this process, as one has failed: XLA leaves out the ones behind it, so later ones would
/// meet wrong calls of other processes. All communicators are revoked: calls of other processes with this one
/// end with errors. Returns the text for the caller's error, which contains that of the first one.
std::string end_calls(const std::string& message);

}  // namespace weft::jax

#define WEFT_EXPORT __attribute__((visibility("default")))
