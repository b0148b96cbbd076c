// SPDX-License-Identifier: BSD-3-Clause
#include "io/file/agreement.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "coll/schedule/collective.hpp"
#include "io/task/events.hpp"

namespace weft::io {

Status broadcast(core::Communicator& comm, void* data, size_t bytes) {
  if (comm.size() == 1) return {};
  return coll::run(coll::record_call(coll::Collective::bcast, comm, data, data, bytes));
}

Status agree(core::Communicator& comm, Status own, const std::string& path) {
  if (comm.size() == 1) return own;
  std::vector<int64_t> codes(static_cast<size_t>(comm.size()));
  const int64_t mine = failure_code(own);
  Status gathered =
      coll::run(coll::record_call(coll::Collective::allgather, comm, &mine, codes.data(), sizeof mine));
  if (!gathered.ok()) return own.ok() ? std::move(gathered) : std::move(own);
  return agree(std::move(own), codes, path);
}

}  // namespace weft::io
