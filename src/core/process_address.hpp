// SPDX-License-Identifier: BSD-3-Clause
// ProcessAddress: what a process of another job needs to know to connect to this one.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "launch/job_id.hpp"

namespace weft::core {

struct ProcessAddress {
  launch::JobId job;
  uint32_t size = 1, rank = 0;              ///< of the job
  uint32_t local_size = 1, local_rank = 0;  ///< among the ranks of the job on that host
  std::string host;                         ///< launch::host_name()
  std::string segment;                      ///< name of its shm::JobListener
  std::string network;                      ///< transport::address_record(); empty: it has opened none

  /// Printable characters without white space: a port name, or an entry of a name service.
  [[nodiscard]] std::string text() const;
  /// Errc::arg for anything else than text() of the same Weft.
  [[nodiscard]] static Result<ProcessAddress> parse(const std::string& text);
};

}  // namespace weft::core
