// SPDX-License-Identifier: BSD-3-Clause
#include "core/process_table.hpp"

#include <string>

#include "base/assert.hpp"

namespace weft::core {
namespace {

/// FNV-1a, 64 bits, from a start value (Fowler, Noll, Vo).
uint64_t fnv1a(std::string_view text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

JobId JobId::of(std::string_view name) {
  return {{fnv1a(name, 0xcbf29ce484222325ULL), fnv1a(name, 0x9ae16a3b2f90404fULL)}};
}

ProcessTable::ProcessTable(const JobId& own, uint32_t size) : own_size_(size) {
  jobs_.push_back({own, size, 1, {}});
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
  JobIndex job = 1;
  while (job < jobs_.size() && jobs_[job].references != 0) ++job;
  if (job == jobs_.size()) jobs_.emplace_back();
  jobs_[job] = {id, size, 1, {}};
  return job;
}

void ProcessTable::release_job(JobIndex job) {
  WEFT_ASSERT(job < jobs_.size() && jobs_[job].references != 0);
  WEFT_ASSERT(job != kOwnJob || jobs_[job].references > 1);
  Job& entry = jobs_[job];
  if (--entry.references != 0) return;
  WEFT_ASSERT(entry.processes.empty());
  entry = {};
}

ProcessId ProcessTable::intern(JobIndex job, uint32_t rank) {
  WEFT_ASSERT(job < jobs_.size() && jobs_[job].references != 0 && rank < jobs_[job].size);
  if (job == kOwnJob) return rank;
  if (const auto known = jobs_[job].processes.find(rank); known != jobs_[job].processes.end()) {
    ++other(known->second).references;
    return known->second;
  }
  ProcessId process;
  if (free_.empty()) {
    process = limit();
    others_.emplace_back();
  } else {
    process = free_.back();
    free_.pop_back();
  }
  other(process) = {{job, rank}, 1};
  jobs_[job].processes.emplace(rank, process);
  ++jobs_[job].references;
  return process;
}

void ProcessTable::retain(ProcessId process) {
  if (in_own_job(process)) return;
  WEFT_ASSERT(other(process).references != 0);
  ++other(process).references;
}

void ProcessTable::release(ProcessId process) {
  if (in_own_job(process)) return;
  WEFT_ASSERT(process < limit() && other(process).references != 0);
  if (--other(process).references != 0) return;
  for (const Removed& removed : removed_) removed(process);
  const Process gone = other(process).process;
  jobs_[gone.job].processes.erase(gone.rank);
  free_.push_back(process);
  release_job(gone.job);
}

ProcessTable::Process ProcessTable::at(ProcessId process) const {
  if (in_own_job(process)) return {kOwnJob, process};
  WEFT_ASSERT(process < limit() && others_[process - own_size_].references != 0);
  return others_[process - own_size_].process;
}

}  // namespace weft::core
