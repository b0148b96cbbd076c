// SPDX-License-Identifier: BSD-3-Clause
// All ranks of a job in one process: schedules run round-robin over a network that matches like p2p, but
// delivers late and in random order. Defines p2p::post_send and post_receive: link it in place of the real
// ones.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "coll/schedule.hpp"
#include "core/communicator.hpp"

namespace simulator {

/// A communicator of `size` ranks, seen from each of them.
class Job {
 public:
  explicit Job(int size);
  ~Job();
  [[nodiscard]] int size() const { return static_cast<int>(comms_.size()); }
  weft::core::Communicator& comm(int rank) { return *comms_[static_cast<size_t>(rank)]; }

 private:
  std::vector<weft::core::Communicator*> comms_;
};

weft::core::Instance& instance();

/// Runs calls[r] with this algorithm at every rank r, `times` times, as a persistent operation would;
/// `before` and `after` run around each. Empty on success, else what went wrong.
std::string run(const std::vector<weft::coll::Call>& calls, const weft::coll::Algorithm& algorithm,
                unsigned seed, int times, const std::function<void()>& before,
                const std::function<void()>& after);

}  // namespace simulator
