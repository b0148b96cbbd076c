// SPDX-License-Identifier: BSD-3-Clause
// The process table: indices of the own job, interning of other jobs, reuse of indices after the last
// reference.
#include "core/process_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

#include "core/process_address.hpp"

namespace weft::core {
namespace {

const JobId kOwn = JobId::of("own"), kSpawned = JobId::of("spawned"), kOther = JobId::of("other");

TEST(ProcessTable, OwnRanksAreTheirIndices) {
  ProcessTable table(kOwn, 4);
  EXPECT_EQ(table.limit(), 4u);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(table.intern(kOwnJob, rank), rank);
    EXPECT_EQ(table.at(rank), (ProcessTable::Process{kOwnJob, rank}));
    table.release(rank);  // no effect: they live as long as the table
  }
  EXPECT_EQ(table.find_job(kOwn), kOwnJob);
}

TEST(ProcessTable, ProcessesOfAnotherJobAreInternedOnce) {
  ProcessTable table(kOwn, 2);
  const JobIndex job = table.add_job(kSpawned, 3).value();
  EXPECT_NE(job, kOwnJob);
  const ProcessId a = table.intern(job, 2), b = table.intern(job, 0);
  EXPECT_EQ(a, 2u);
  EXPECT_EQ(b, 3u);
  EXPECT_EQ(table.intern(job, 2), a);
  EXPECT_EQ(table.at(b), (ProcessTable::Process{job, 0}));
  EXPECT_FALSE(table.in_own_job(a));
}

TEST(ProcessTable, AnIndexIsReusedOnlyAfterItsLastReference) {
  ProcessTable table(kOwn, 2);
  std::vector<ProcessId> removed;
  table.on_removed([&](ProcessId process) { removed.push_back(process); });
  const JobIndex job = table.add_job(kSpawned, 3).value();
  const ProcessId first = table.intern(job, 0);
  table.retain(first);
  table.release(first);
  EXPECT_TRUE(removed.empty());
  EXPECT_NE(table.intern(job, 1), first);
  table.release(first);
  EXPECT_EQ(removed, std::vector<ProcessId>{first});
  EXPECT_EQ(table.intern(job, 2), first);
}

TEST(ProcessTable, AJobIsForgottenWithItsLastReference) {
  ProcessTable table(kOwn, 2);
  const JobIndex job = table.add_job(kSpawned, 3).value();
  EXPECT_EQ(table.add_job(kSpawned, 3).value(), job);
  EXPECT_FALSE(table.add_job(kSpawned, 4).ok());
  const ProcessId process = table.intern(job, 1);
  table.release_job(job);
  table.release_job(job);
  EXPECT_EQ(table.find_job(kSpawned), job);  // one of its processes is still referenced
  table.release(process);
  EXPECT_EQ(table.find_job(kSpawned), ProcessTable::kNoJob);
  EXPECT_EQ(table.add_job(kOther, 1).value(), job);
}

TEST(ProcessTable, ProcessesAreFoundByTheTagOfTheirJob) {
  ProcessTable table(kOwn, 2);
  const JobIndex job = table.add_job(kSpawned, 3).value();
  const ProcessId process = table.intern(job, 1);
  EXPECT_EQ(table.find(kOwn.tag(), 1), 1u);
  EXPECT_EQ(table.find(kOwn.tag(), 2), kNoProcess);
  EXPECT_EQ(table.find(kSpawned.tag(), 1), process);
  EXPECT_EQ(table.find(kSpawned.tag(), 0), kNoProcess);
  EXPECT_EQ(table.find(kOther.tag(), 1), kNoProcess);
}

TEST(ProcessTable, CreatorsOfContextIdsAreDisjoint) {
  ProcessTable table(kOwn, 1000);
  const uint32_t own = table.first_creator(kOwnJob);
  EXPECT_GT(own, 0u);
  EXPECT_TRUE(table.is_creator(own + 999));
  EXPECT_FALSE(table.is_creator(own + 1000));
  EXPECT_FALSE(table.is_creator(own - 1));
  const JobIndex job = table.add_job(kSpawned, 3).value();
  EXPECT_TRUE(table.is_creator(table.first_creator(job) + 2));
  // The other side derives the same number.
  EXPECT_EQ(table.first_creator(job), ProcessTable(kSpawned, 3).first_creator(kOwnJob));
  table.release_job(job);
  EXPECT_EQ(table.first_creator(kOwnJob), own);
}

TEST(ProcessTable, JobsWhoseIdsCollideAreRefused) {
  ProcessTable table(kOwn, 2);
  JobId same_tag = kOther, same_creators = kOther;
  same_tag.words[0] = kOwn.words[0];
  EXPECT_FALSE(table.add_job(same_tag, 1).ok());
  same_creators.words[1] = kOwn.words[1];
  EXPECT_FALSE(table.add_job(same_creators, 2).ok());
  EXPECT_FALSE(table.add_job(kOther, 0).ok());
  EXPECT_TRUE(table.add_job(kOther, 2).ok());
}

TEST(ProcessTable, AllJobsAgreeOnTheOrderOfProcesses) {
  ProcessTable here(kOwn, 2), there(kSpawned, 2);
  const JobIndex spawned = here.add_job(kSpawned, 2).value(), own = there.add_job(kOwn, 2).value();
  const ProcessId far = here.intern(spawned, 1), near = there.intern(own, 0);
  EXPECT_TRUE(here.before(0, 1));
  EXPECT_EQ(here.before(0, far), there.before(near, 1));
  EXPECT_NE(here.before(0, far), here.before(far, 0));
}

TEST(JobId, TextIsParsed) {
  EXPECT_EQ(JobId::parse(kOwn.text()).value(), kOwn);
  for (const char* text : {"", "12", "0123456789abcdef0123456789abcdeg", "0123456789abcdef0123456789abcdef0"})
    EXPECT_FALSE(JobId::parse(text).ok()) << text;
  EXPECT_NE(JobId::of("job-1").tag(), JobId::of("job-2").tag());
}

TEST(ProcessAddress, TextIsParsed) {
  ProcessAddress address{kOwn, 5, 4, 3, 2, "boot/host name:1", "segment", std::string("a\0\xff", 3)};
  for (size_t length = 0; length < 5; ++length) {
    address.network = std::string("\0\xff:\n", 4).substr(0, length);
    const auto read = ProcessAddress::parse(address.text()).value();
    EXPECT_EQ(read.text(), address.text());
    EXPECT_EQ(read.network, address.network);
    EXPECT_EQ(read.host, address.host);
    EXPECT_EQ(address.text().find_first_of(" \n\t"), std::string::npos);
  }
  const std::string text = address.text();
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(ProcessAddress::parse(text.substr(0, length)).ok()) << length;
    for (const char wrong : {'A', '1', ':', '\0', '~'}) {
      std::string changed = text;
      if (std::exchange(changed[length], wrong) == wrong) continue;
      EXPECT_FALSE(ProcessAddress::parse(changed).ok()) << changed;
    }
  }
  EXPECT_FALSE(ProcessAddress::parse(text + ":").ok());
  address.rank = 5;
  EXPECT_FALSE(ProcessAddress::parse(address.text()).ok());
  address.rank = 4;
  address.local_rank = 3;
  EXPECT_FALSE(ProcessAddress::parse(address.text()).ok());
}

// Random jobs and processes against a map; seeds 0 to 19.
TEST(ProcessTable, RandomReferencesAgreeWithAMap) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    ProcessTable table(kOwn, 3);
    std::map<ProcessId, std::pair<ProcessTable::Process, int>> model;
    std::vector<JobIndex> jobs;
    for (int i = 0; i < 4; ++i) jobs.push_back(table.add_job(JobId::of(std::to_string(i)), 8).value());
    for (int step = 0; step < 2000; ++step) {
      if (model.empty() || random() % 2 == 0) {
        const ProcessTable::Process wanted{jobs[random() % jobs.size()], static_cast<uint32_t>(random() % 8)};
        const ProcessId process = table.intern(wanted.job, wanted.rank);
        auto [at, is_new] = model.try_emplace(process, wanted, 0);
        ASSERT_EQ(at->second.first, wanted) << "seed " << seed;
        ++at->second.second;
      } else {
        auto at = std::next(model.begin(), static_cast<long>(random() % model.size()));
        table.release(at->first);
        if (--at->second.second == 0) model.erase(at);
      }
      for (const auto& [process, known] : model) ASSERT_EQ(table.at(process), known.first) << "seed " << seed;
    }
    EXPECT_LE(table.limit(), 3u + 4 * 8);
  }
}

}  // namespace
}  // namespace weft::core
