// SPDX-License-Identifier: BSD-3-Clause
#include "core/process_table.hpp"

#include <string>

#include "base/assert.hpp"

namespace weft::core {
namespace {

/// Both sides of a connection derive the same number from the id. `size` is at most kMaxCreator.
uint32_t first_creator_of(const JobId& id, uint32_t size) {
  return 1 + static_cast<uint32_t>(id.words[1] % (kMaxCreator - size + 1));
}

}  // namespace

ProcessTable::ProcessTable(const JobId& own, uint32_t size) : own_size_(size) {
  jobs_.push_back({own, size, 1, first_creator_of(own, size), {}});
}

JobIndex ProcessTable::find_job(const JobId& id) const {
  for (JobIndex job = 0; job < jobs_.size(); ++job)
    if (jobs_[job].references != 0 && jobs_[job].id == id) return job;
  return kNoJob;
}

Result<JobIndex> ProcessTable::add_job(const JobId& id, uint32_t size) {
  if (const JobIndex known = find_job(id); known != kNoJob) {
    if (jobs_[known].size != size)
      return Error(Errc::arg, "a job is announced with " + std::to_string(size) +
                                  " processes and known with " + std::to_string(jobs_[known].size) +
                                  ": the two sides run different jobs");
    ++jobs_[known].references;
    return known;
  }
  if (size == 0 || size > kMaxCreator)
    return Error(Errc::arg, "a job is announced with " + std::to_string(size) + " processes");
  const uint32_t creator = first_creator_of(id, size);
  for (const Job& other : jobs_)
    if (other.references != 0 && (other.id.tag() == id.tag() || (creator < other.first_creator + other.size &&
                                                                 other.first_creator < creator + size)))
      return Error(Errc::arg, "job " + id.text() + " has ids like those of job " + other.id.text() +
                                  " by chance: start one of the two jobs again");
  JobIndex job = 1;
  while (job < jobs_.size() && jobs_[job].references != 0) ++job;
  if (job == jobs_.size()) jobs_.emplace_back();
  jobs_[job] = {id, size, 1, creator, {}};
  return job;
}

void ProcessTable::release_job(JobIndex job) {
  WEFT_ASSERT(job < jobs_.size() && jobs_[job].references != 0);  // N1
  WEFT_ASSERT(job != kOwnJob || jobs_[job].references > 1);       // N5
  Job& entry = jobs_[job];
  if (--entry.references != 0) return;
  WEFT_ASSERT(entry.processes.empty());  // N1
  entry = {};
}

ProcessId ProcessTable::intern(JobIndex job, uint32_t rank) {
  WEFT_ASSERT(job < jobs_.size() && jobs_[job].references != 0 && rank < jobs_[job].size);  // N1
  if (job == kOwnJob) return rank;
  if (const auto known = jobs_[job].processes.find(rank); known != jobs_[job].processes.end()) {
    ++other(known->second).references;
    return known->second;
  }
  WEFT_ASSERT(room_for(1));
  ProcessId process;
  if (free_.empty()) {
    process = limit();
    others_.emplace_back();
  } else {
    process = free_.back();
    free_.pop_back();
  }
  WEFT_ASSERT(!in_own_job(process) && other(process).references == 0);  // N5
  other(process) = {{job, rank}, 1, -1};
  jobs_[job].processes.emplace(rank, process);
  ++jobs_[job].references;
  return process;
}

void ProcessTable::retain(ProcessId process) {
  if (in_own_job(process)) return;
  WEFT_ASSERT(other(process).references != 0);  // N5
  ++other(process).references;
}

void ProcessTable::release(ProcessId process) {
  if (in_own_job(process)) return;
  WEFT_ASSERT(process < limit() && other(process).references != 0);  // N5
  if (--other(process).references != 0) return;
  for (const Removed& removed : removed_) removed(process);
  const Process gone = other(process).process;
  jobs_[gone.job].processes.erase(gone.rank);
  free_.push_back(process);
  release_job(gone.job);
}

bool ProcessTable::is_creator(uint32_t creator) const {
  for (const Job& job : jobs_)
    if (job.references != 0 && creator - job.first_creator < job.size) return true;
  return false;
}

ProcessId ProcessTable::find(uint32_t job_tag, uint32_t rank) const {
  for (const Job& job : jobs_) {
    if (job.references == 0 || job.id.tag() != job_tag) continue;
    if (&job == jobs_.data()) return rank < own_size_ ? rank : kNoProcess;
    const auto known = job.processes.find(rank);
    return known != job.processes.end() ? known->second : kNoProcess;
  }
  return kNoProcess;
}

bool ProcessTable::before(ProcessId a, ProcessId b) const {
  if (in_own_job(a) && in_own_job(b)) return a < b;
  const Process left = at(a), right = at(b);
  if (left.job == right.job) return left.rank < right.rank;
  return job_id(left.job) < job_id(right.job);
}

ProcessTable::Process ProcessTable::at(ProcessId process) const {
  if (in_own_job(process)) return {kOwnJob, process};
  WEFT_ASSERT(process < limit() && others_[process - own_size_].references != 0);  // N5
  return others_[process - own_size_].process;
}

}  // namespace weft::core
