// SPDX-License-Identifier: BSD-3-Clause
// Process table: every process that this one knows, as (job, rank in its job), interned as a dense local
// index. The processes of the own job have the indices of their ranks. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "core/group.hpp"
#include "launch/job_id.hpp"

namespace weft::core {

using launch::JobId;

/// Largest number of processes of other jobs in the table; per-peer tables reserve address
/// space for them.
inline constexpr uint32_t kMaxOtherProcesses = 1 << 16;
/// Creators of context ids have numbers from 1 to this one (see ContextId).
inline constexpr uint32_t kMaxCreator = (1U << 30) - 1;

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

  /// Adds a job, or one more reference to a known one. Errc::arg if the job is known with another size, or if
  /// its tag or its context ids are those of another known job.
  [[nodiscard]] Result<JobIndex> add_job(const JobId& id, uint32_t size);
  /// Gives one reference back. The job is forgotten with the last reference to it and to its processes.
  void release_job(JobIndex job);
  /// The job of this id; kNoJob if it is not known.
  static constexpr JobIndex kNoJob = UINT32_MAX;
  [[nodiscard]] JobIndex find_job(const JobId& id) const;
  [[nodiscard]] const JobId& job_id(JobIndex job) const { return jobs_[job].id; }
  [[nodiscard]] uint32_t job_size(JobIndex job) const { return jobs_[job].size; }

  /// The number of rank 0 of the job as a creator of context ids; rank r has the number + r. The ranges of
  /// known jobs are disjoint.
  [[nodiscard]] uint32_t first_creator(JobIndex job) const { return jobs_[job].first_creator; }
  [[nodiscard]] bool is_creator(uint32_t creator) const;

  /// The index of a process, with one more reference to it. Preconditions: rank < job_size(job); room_for(1)
  /// unless the process is known.
  [[nodiscard]] ProcessId intern(JobIndex job, uint32_t rank);
  /// Returns whether `count` further processes of other jobs can be known.
  [[nodiscard]] bool room_for(uint32_t count) const {
    return others_.size() - free_.size() + count <= kMaxOtherProcesses;
  }
  /// The known process of that rank in the job with that tag; kNoProcess if there is none.
  [[nodiscard]] ProcessId find(uint32_t job_tag, uint32_t rank) const;
  void retain(ProcessId process);
  void release(ProcessId process);
  /// Number of references to a process of another job.
  [[nodiscard]] uint32_t references(ProcessId process) const {
    return others_[process - own_size_].references;
  }
  /// The host number of a process of another job, in the numbering of launch::Job::host_of_rank.
  [[nodiscard]] int host_of(ProcessId process) const { return others_[process - own_size_].host; }
  void set_host(ProcessId process, int host) { other(process).host = host; }
  /// An order of processes on which all processes of connected jobs agree; in one job the order of ranks.
  [[nodiscard]] bool before(ProcessId a, ProcessId b) const;
  /// Precondition: the process is referenced.
  [[nodiscard]] Process at(ProcessId process) const;
  [[nodiscard]] bool in_own_job(ProcessId process) const { return process < own_size_; }
  /// Returns whether a process of another job is known.
  [[nodiscard]] bool any_others() const { return others_.size() != free_.size(); }
  /// One more than the largest index in use: the size that per-peer tables need.
  [[nodiscard]] uint32_t limit() const { return own_size_ + static_cast<uint32_t>(others_.size()); }
  void on_removed(Removed removed) { removed_.push_back(std::move(removed)); }

 private:
  struct Job {
    JobId id;
    uint32_t size = 0;
    uint32_t references = 0;  // 0: the entry is free
    uint32_t first_creator = 0;
    std::unordered_map<uint32_t, ProcessId> processes;  // by rank; empty for the own job
  };
  struct Other {
    Process process{};
    uint32_t references = 0;  // 0: the entry is free
    int host = -1;
  };
  [[nodiscard]] Other& other(ProcessId process) { return others_[process - own_size_]; }

  uint32_t own_size_;
  std::vector<Job> jobs_;
  std::vector<Other> others_;  // processes of other jobs, from index own_size_ on
  std::vector<ProcessId> free_;
  std::vector<Removed> removed_;
};

}  // namespace weft::core
