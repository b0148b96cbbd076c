// SPDX-License-Identifier: BSD-3-Clause
// Process table: every process that this one knows, as (job, rank in its job), interned as a dense local
// index. The processes of the own job have the indices of their ranks. Threading: under the instance lock.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/group.hpp"

namespace weft::core {

/// Names a job for ever: 128 bits, the same on all its processes.
struct JobId {
  std::array<uint64_t, 2> words{};
  bool operator==(const JobId&) const = default;
  /// The id of the job that the launcher calls `name`: a hash of the name and of what all its processes
  /// share.
  [[nodiscard]] static JobId of(std::string_view name);
};

/// A job as this process numbers it; kOwnJob is the job that this process belongs to.
using JobIndex = uint32_t;
inline constexpr JobIndex kOwnJob = 0;

class ProcessTable {
 public:
  struct Process {
    JobIndex job;
    uint32_t rank;  ///< in its job
    bool operator==(const Process&) const = default;
  };
  /// Called when the last reference to a process of another job is gone, before its index may be used again:
  /// the owner of per-peer state gives it up.
  using Removed = std::function<void(ProcessId)>;

  ProcessTable(const JobId& own, uint32_t size);

  /// Adds a job, or one more reference to a known one. Errc::arg if the job is known with another size.
  [[nodiscard]] Result<JobIndex> add_job(const JobId& id, uint32_t size);
  /// Gives one reference back. The job is forgotten with the last reference to it and to its processes.
  void release_job(JobIndex job);
  /// The job of this id; kNoJob if it is not known.
  static constexpr JobIndex kNoJob = UINT32_MAX;
  [[nodiscard]] JobIndex find_job(const JobId& id) const;
  [[nodiscard]] const JobId& job_id(JobIndex job) const { return jobs_[job].id; }
  [[nodiscard]] uint32_t job_size(JobIndex job) const { return jobs_[job].size; }

  /// The index of a process, with one more reference to it. Precondition: rank < job_size(job).
  [[nodiscard]] ProcessId intern(JobIndex job, uint32_t rank);
  void retain(ProcessId process);
  void release(ProcessId process);
  /// Precondition: the process is referenced.
  [[nodiscard]] Process at(ProcessId process) const;
  [[nodiscard]] bool in_own_job(ProcessId process) const { return process < own_size_; }
  /// One more than the largest index in use: the size that per-peer tables need.
  [[nodiscard]] uint32_t limit() const { return own_size_ + static_cast<uint32_t>(others_.size()); }
  void on_removed(Removed removed) { removed_.push_back(std::move(removed)); }

 private:
  struct Job {
    JobId id;
    uint32_t size = 0;
    uint32_t references = 0;                            // 0: the entry is free
    std::unordered_map<uint32_t, ProcessId> processes;  // by rank; empty for the own job
  };
  struct Other {
    Process process{};
    uint32_t references = 0;  // 0: the entry is free
  };
  [[nodiscard]] Other& other(ProcessId process) { return others_[process - own_size_]; }

  uint32_t own_size_;
  std::vector<Job> jobs_;
  std::vector<Other> others_;  // processes of other jobs, from index own_size_ on
  std::vector<ProcessId> free_;
  std::vector<Removed> removed_;
};

}  // namespace weft::core
