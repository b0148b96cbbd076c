// SPDX-License-Identifier: BSD-3-Clause
// Simulates all ranks of a job in one process: schedules run in random order over a network that matches like
// p2p but delivers late and in random order. Defines p2p::post_send and post_receive: link it instead of p2p.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "coll/schedule/schedule.hpp"
#include "core/communicator.hpp"

namespace simulator {

/// A communicator of `size` ranks, with one object per rank.
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

/// Runs calls[r] with `algorithm` on every rank r, `times` times like a persistent operation; calls `before`
/// and `after` around each run. Returns an empty string on success, else the failure.
std::string run(const std::vector<weft::coll::Call>& calls, const weft::coll::Algorithm& algorithm,
                unsigned seed, int times, const std::function<void()>& before,
                const std::function<void()>& after);

}  // namespace simulator
