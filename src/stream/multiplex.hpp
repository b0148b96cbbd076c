// SPDX-License-Identifier: BSD-3-Clause
// Multiplex: a communicator with several streams per rank. A message goes from one stream of a rank to one
// stream of another, and matches only there. Threading: under the instance lock.
#pragma once
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "core/communicator.hpp"
#include "core/reference.hpp"
#include "stream/stream.hpp"

namespace weft::stream {

class Multiplex final : public core::StreamState {
 public:
  /// Collective: attaches this rank's streams to `comm`, which has none yet.
  [[nodiscard]] static Status attach(core::Communicator& comm, std::vector<core::Ref<Stream>> streams);
  /// Null: the communicator has at most one stream.
  [[nodiscard]] static Multiplex* of(const core::Communicator& comm);

  [[nodiscard]] int count() const { return static_cast<int>(streams_.size()); }
  [[nodiscard]] Stream* at(int index) const { return streams_[static_cast<size_t>(index)].get(); }
  /// Number of streams of a rank.
  [[nodiscard]] int count_of(int rank) const { return static_cast<int>(counts_[static_cast<size_t>(rank)]); }
  /// Context id for messages between two streams.
  [[nodiscard]] core::ContextId context(int source_index, int dest_index) const {
    const auto pair =
        static_cast<core::ContextId>(source_index) * max_streams_ + static_cast<core::ContextId>(dest_index);
    return first_ + pair * core::kContextStep;
  }

 private:
  std::vector<core::Ref<Stream>> streams_;
  std::vector<uint32_t> counts_;  // by rank
  uint32_t max_streams_ = 1;      // largest count of any rank
  core::ContextId first_ = 0;
};

}  // namespace weft::stream
