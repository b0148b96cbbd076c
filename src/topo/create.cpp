// SPDX-License-Identifier: BSD-3-Clause
#include "topo/create.hpp"

#include <string>

namespace weft::topo {

coll::NewCommunicator first_ranks(core::Communicator& parent, int size, const char* what) {
  if (size > parent.size())
    return Error(Errc::arg, std::string(what) + " needs " + std::to_string(size) +
                                " processes, but the communicator has " + std::to_string(parent.size()) +
                                ": make it smaller");
  const core::RankRange range{0, size - 1, 1};
  const auto ranges = std::span<const core::RankRange>(&range, size > 0 ? 1 : 0);
  auto group = parent.group->include(ranges);
  if (!group) return std::move(group).error();
  const core::Ref<core::Group> members(*group);
  return coll::create(parent, *members);
}

}  // namespace weft::topo
