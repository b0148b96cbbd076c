// SPDX-License-Identifier: BSD-3-Clause
#include "stream/multiplex.hpp"

#include <algorithm>

#include "coll/bootstrap/group.hpp"
#include "core/instance.hpp"

namespace weft::stream {

Status Multiplex::attach(core::Communicator& comm, std::vector<core::Ref<Stream>> streams) {
  auto made = std::make_unique<Multiplex>();
  made->counts_.resize(static_cast<size_t>(comm.size()));
  made->counts_[static_cast<size_t>(comm.rank())] = static_cast<uint32_t>(streams.size());
  const coll::BootstrapGroup bootstrap(comm, comm.next_collective_tag());
  WEFT_TRY(bootstrap.allgather(made->counts_.data(), sizeof made->counts_[0]));
  made->max_streams_ = *std::max_element(made->counts_.begin(), made->counts_.end());
  if (comm.rank() == 0) made->first_ = comm.instance.new_contexts(made->max_streams_ * made->max_streams_);
  WEFT_TRY(bootstrap.broadcast(&made->first_, sizeof made->first_));
  made->streams_ = std::move(streams);
  comm.stream = std::move(made);
  return {};
}

Multiplex* Multiplex::of(const core::Communicator& comm) {
  return dynamic_cast<Multiplex*>(comm.stream.get());
}

}  // namespace weft::stream
