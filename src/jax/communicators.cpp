// SPDX-License-Identifier: BSD-3-Clause
#include "jax/communicators.hpp"

#include <weft.h>

namespace weft::jax {
namespace {

/// The result of weft_jax_problem().
thread_local std::string problem;

void revoke(State& all, int index) {
  const MPI_Comm comm = all.communicators[index].load(std::memory_order_relaxed);
  if (comm != MPI_COMM_NULL) MPIX_Comm_revoke(comm);
  const Kernels* const kernels = all.kernels[index].get();
  if (kernels != nullptr && kernels->comm() != MPI_COMM_NULL) MPIX_Comm_revoke(kernels->comm());
}

}  // namespace

State& state() {
  static State all;
  return all;
}

std::string end_calls(const std::string& message) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  if (const std::string* first = all.failure.load(std::memory_order_acquire); first != nullptr)
    return "weft_mpi.jax: this process makes no calls any more since one has failed: " + *first;
  all.failure.store(new std::string(message), std::memory_order_release);
  for (int i = 0; i < all.used.load(std::memory_order_relaxed); ++i) revoke(all, i);
  return message;
}

extern "C" {

/// Returns the number of a communicator for the attribute "comm"; -1 if there are too many. Ends its calls at
/// once if an earlier call has failed.
WEFT_EXPORT int weft_jax_add_communicator(void* comm) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  const int index = all.used.load(std::memory_order_relaxed);
  if (index == kMaxCommunicators) return -1;
  all.communicators[index].store(static_cast<MPI_Comm>(comm), std::memory_order_relaxed);
  all.used.store(index + 1, std::memory_order_release);
  if (all.failure.load(std::memory_order_relaxed) != nullptr) revoke(all, index);
  return index;
}

/// Lets kernels execute the collectives of a communicator, on GPU number `device` of this process; -1: it has
/// none. Collective over the communicator. Returns 1; 0, on all ranks: kernels cannot execute them; -1, on
/// all ranks: weft_jax_problem() of the same thread has the reason, of this process or of MPI.
WEFT_EXPORT int weft_jax_open_kernels(int index, int device) {
  enum : int { failed = -1, no_gpu = 0, ready = 1 };
  const MPI_Comm comm = state().communicators[index].load(std::memory_order_relaxed);
  auto kernels = std::make_unique<Kernels>();
  problem = device < 0 ? "" : kernels->prepare(device);
  int lowest = !problem.empty() ? failed : device < 0 ? no_gpu : ready;
  if (MPI_Allreduce(MPI_IN_PLACE, &lowest, 1, MPI_INT, MPI_MIN, comm) != MPI_SUCCESS) {
    problem = end_calls(last_error());
    lowest = failed;
  }
  if (lowest == failed && problem.empty()) problem = "the GPU of another process cannot be used";
  int result = lowest;
  if (lowest == ready) {
    const int code = kernels->open(comm);
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    if (error_class != MPI_SUCCESS) result = error_class == MPI_ERR_UNSUPPORTED_OPERATION ? no_gpu : failed;
    if (result == failed) problem = last_error();
  }
  if (result != ready) {
    kernels->close();
    return result;
  }
  const std::lock_guard lock(state().mutex);
  state().kernels[index] = std::move(kernels);
  if (state().failure.load(std::memory_order_relaxed) != nullptr) revoke(state(), index);
  return result;
}

/// Returns what is wrong with kernels, after weft_jax_open_kernels() in this thread.
WEFT_EXPORT const char* weft_jax_problem() { return problem.c_str(); }

/// Ends the calls of this process, since a compiled function has failed with this text.
WEFT_EXPORT void weft_jax_end_calls(const char* message) { end_calls(message); }

/// Forgets all communicators: later calls of compiled functions end with an error. Collective.
WEFT_EXPORT void weft_jax_forget_communicators() {
  State& all = state();
  for (int i = 0; i < all.used.load(std::memory_order_relaxed); ++i) {
    if (all.kernels[i] != nullptr) all.kernels[i]->close();
    all.kernels[i].reset();
    all.communicators[i].store(MPI_COMM_NULL, std::memory_order_relaxed);
  }
}

/// Returns how often a call has waited for XLA's stream, since the library has no calls in its order.
WEFT_EXPORT int64_t weft_jax_stream_waits() { return state().stream_waits.load(std::memory_order_relaxed); }

}  // extern "C"

}  // namespace weft::jax
