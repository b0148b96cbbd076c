// SPDX-License-Identifier: BSD-3-Clause
// Job: the functions of weft.h that start a job by a key-value store of the program, and let processes leave.
#include <weft.h>

#include <cstring>
#include <mutex>
#include <string>

#include "api/entry_point.hpp"
#include "api/extension.hpp"
#include "api/instance.hpp"
#include "base/clock.hpp"
#include "launch/store/store.hpp"
#include "p2p/p2p.hpp"

namespace {

using weft::Errc;
using weft::Error;
using weft::Result;
using weft::Status;

constexpr size_t kMaxName = 64;
constexpr size_t kTypicalValueBytes = 1024;
constexpr double kMaxDrainSeconds = 1e6;

Status put_value(MPIX_Store_put* put, void* state, const std::string& key, std::string_view value) {
  if (put(state, key.c_str(), value.data(), static_cast<int>(value.size())) == 0) return {};
  return Error(Errc::other, "the store of this program did not store '" + key + "'");
}

Result<std::string> get_value(MPIX_Store_get* get, void* state, const std::string& key, int owner) {
  std::string value(kTypicalValueBytes, '\0');
  while (true) {
    const int bytes = get(state, key.c_str(), owner, value.data(), static_cast<int>(value.size()));
    if (bytes < 0)
      return Error(Errc::other, "the store of this program has no value of '" + key + "', which process " +
                                    std::to_string(owner) + " stores: has this process ended?");
    const bool complete = static_cast<size_t>(bytes) <= value.size();
    value.resize(static_cast<size_t>(bytes));
    if (complete) return value;
  }
}

Status allow_exit(double seconds) {
  const auto time_ns = static_cast<uint64_t>(seconds * 1e9);
  weft::api::allow_exit(time_ns);
  weft::core::Instance& instance = *weft::api::g_instance;
  if (weft::p2p::connected(instance)) weft::p2p::drain(instance, weft::monotonic_ns() + time_ns);
  return {};
}

}  // namespace

extern "C" {

WEFT_EXPORT int PMPIX_Job_by_store(int rank, int size, const char* name, MPIX_Store_put* put,
                                   MPIX_Store_get* get, void* state) {
  static std::mutex lock;
  if (rank < 0 || rank >= size || name == nullptr || put == nullptr || get == nullptr) return MPI_ERR_ARG;
  const size_t length = strnlen(name, kMaxName + 1);
  if (length == 0 || length > kMaxName) return MPI_ERR_ARG;
  const std::lock_guard guard(lock);
  if (weft::api::g_state.load() != weft::api::State::before_init || weft::launch::store::is_available())
    return MPI_ERR_OTHER;
  weft::launch::store::use(
      {rank, size, name,
       [=](const std::string& key, std::string_view value) { return put_value(put, state, key, value); },
       [=](const std::string& key, int owner) { return get_value(get, state, key, owner); }});
  return MPI_SUCCESS;
}
WEFT_ALIAS(MPIX_Job_by_store,
           (int rank, int size, const char* name, MPIX_Store_put* put, MPIX_Store_get* get, void* state));

WEFT_EXPORT int PMPIX_Job_allow_exit(double seconds) {
  if (!(seconds >= 0 && seconds <= kMaxDrainSeconds)) return MPI_ERR_ARG;
  weft::api::EntryPoint entry("MPIX_Job_allow_exit");
  return guarded(entry, [&] { return entry.finish(allow_exit(seconds)); });
}
WEFT_ALIAS(MPIX_Job_allow_exit, (double seconds));

}  // extern "C"
