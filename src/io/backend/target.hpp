// SPDX-License-Identifier: BSD-3-Clause
// Target: the state of an open file that accesses share, also those of I/O threads.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>

#include "io/backend/autotuner.hpp"
#include "io/backend/cufile.hpp"
#include "io/backend/descriptor.hpp"
#include "io/backend/hints.hpp"
#include "io/backend/mapping_cache.hpp"
#include "io/backend/pool.hpp"

namespace weft::io {

struct Target {
  Descriptor descriptor;
  GpuFile gpu;                      ///< for accesses of GPU memory
  Hints hints;                      ///< changed by collective calls only, while no access is in flight
  std::atomic<bool> atomic{false};  ///< MPI_File_set_atomicity
  std::atomic<bool> dirty{false};   ///< this process has written since the last sync
  bool mappable = false;            ///< of the descriptor of rank 0; see Descriptor::mappable()
  bool in_memory = false;           ///< on tmpfs
  bool contended = false;      ///< several ranks have opened the file: they wait for the lock of its inode
  bool sieves_writes = false;  ///< romio_ds_write = enable: every write takes a lock
  MappingCache mapping_cache{descriptor};
  Autotuner<2> first_reads, first_writes;  ///< system calls or mappings, for pages that are not mapped yet
  std::mutex exclusive;  ///< accesses under locks of one process, which share its descriptor
  std::shared_ptr<Pool> pool = Pool::shared();
};

/// Locks a range against other processes and threads while it lives.
class RangeLock {
 public:
  RangeLock() = default;
  RangeLock(const RangeLock&) = delete;
  RangeLock& operator=(const RangeLock&) = delete;
  ~RangeLock() {
    if (target_ == nullptr) return;
    target_->descriptor.unlock(range_);
    target_->exclusive.unlock();
  }
  [[nodiscard]] Status take(Target& target, const Range& range, bool exclusive) {
    target.exclusive.lock();
    Status locked = target.descriptor.lock(range, exclusive);
    if (!locked.ok()) {
      target.exclusive.unlock();
      return locked;
    }
    target_ = &target;
    range_ = range;
    return {};
  }

 private:
  Target* target_ = nullptr;
  Range range_;
};

}  // namespace weft::io
