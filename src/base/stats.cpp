// SPDX-License-Identifier: BSD-3-Clause
#include "base/stats.hpp"

#include <algorithm>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "base/clock.hpp"
#include "base/config.hpp"

namespace weft::stats {
namespace {

config::Choice wanted{"stats",
                      0,
                      {"off", "on"},
                      "Whether MPI_Finalize prints a summary of the calls, bytes and waits of all ranks "
                      "(mpiexec --stats).",
                      "you look for the calls and ranks in which the time of a program goes (on)"};

struct Sums {
  std::mutex lock;
  std::unordered_map<std::string_view, Call> calls;
};

Sums& sums() {
  static auto& one = *new Sums;  // never destroyed: threads may outlive static objects
  return one;
}

bool on = false;
uint64_t began_ns = 0;

/// The call of a thread, and how many ranges are open in it.
struct Current {
  int depth;
  const char* name;
  uint64_t since_ns, bytes;
};
thread_local Current current{};

}  // namespace

void open() {
  on = wanted.is("on");
  began_ns = monotonic_ns();
}

bool enabled() { return on; }

uint64_t elapsed_ns() { return monotonic_ns() - began_ns; }

std::vector<Call> calls() {
  std::vector<Call> all;
  {
    const std::lock_guard guard(sums().lock);
    for (const auto& [name, call] : sums().calls) all.push_back(call);
  }
  std::sort(all.begin(), all.end(), [](const Call& a, const Call& b) { return a.ns > b.ns; });
  return all;
}

void push(const char* name) {
  if (current.depth++ == 0) current = {1, name, monotonic_ns(), 0};
}

void pop() {
  if (--current.depth != 0) return;
  const uint64_t ns = monotonic_ns() - current.since_ns;
  const std::lock_guard guard(sums().lock);
  Call& call = sums().calls[current.name];
  call.name = current.name;
  ++call.calls;
  call.bytes += current.bytes;
  call.ns += ns;
}

void annotate(uint64_t bytes) {
  if (current.depth == 1) current.bytes += bytes;
}

}  // namespace weft::stats
