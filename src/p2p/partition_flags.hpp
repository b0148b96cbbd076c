// SPDX-License-Identifier: BSD-3-Clause
// PartitionFlags: the table of a partitioned request in pinned host memory, through which kernels mark
// partitions ready and see them arrive (weft_device.cuh). Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "device/stream.hpp"

namespace weft::device::abi {
struct PartitionTable;
}

namespace weft::p2p {

class PartitionFlags {
 public:
  /// In the caller's current CUDA context. Errc::unsupported with the reason if there is none.
  [[nodiscard]] static Result<std::unique_ptr<PartitionFlags>> create(int partitions);
  ~PartitionFlags();
  PartitionFlags(const PartitionFlags&) = delete;
  PartitionFlags& operator=(const PartitionFlags&) = delete;

  [[nodiscard]] void* table() const { return table_; }
  /// MPI_Start: no partition is marked.
  void begin();
  /// The operation has ended with an error: waits of kernels end.
  void cancel();
  [[nodiscard]] bool marked(int partition) const;
  void mark(int partition);

 private:
  PartitionFlags(const device::UserStream& gpu, device::abi::PartitionTable* table)
      : gpu_(gpu), table_(table) {}
  [[nodiscard]] uint64_t* word(int partition) const;
  device::UserStream gpu_;  ///< its handle is null
  device::abi::PartitionTable* table_;
};

}  // namespace weft::p2p
