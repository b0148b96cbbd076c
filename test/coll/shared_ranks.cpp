// SPDX-License-Identifier: BSD-3-Clause
#include "coll/shared_ranks.hpp"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "core/group.hpp"
#include "core/memory_registry.hpp"
#include "core/remote_memory.hpp"

namespace shared_ranks {
namespace {

using namespace weft;
using transport::shm::Shm;

/// Values that the ranks, as threads of this process, exchange at start-up.
struct Values {
  std::mutex lock;
  std::condition_variable changed;
  std::map<std::string, std::string, std::less<>> values;
};

class ThreadExchange final : public launch::Exchange {
 public:
  ThreadExchange(int rank, int size, std::shared_ptr<Values> values) : values_(std::move(values)) {
    job_.rank = job_.local_rank = rank;
    job_.size = job_.local_size = size;
  }
  [[nodiscard]] const launch::Job& job() const override { return job_; }
  Status put(std::string_view key, std::string_view value) override {
    const std::lock_guard guard(values_->lock);
    values_->values.emplace(key, value);
    values_->changed.notify_all();
    return {};
  }
  Result<std::string> get(std::string_view key, int) override {
    std::unique_lock guard(values_->lock);
    values_->changed.wait(guard, [&] { return values_->values.contains(key); });
    return values_->values.find(key)->second;
  }
  Status fence() override { return {}; }
  void abort(int code, std::string_view) override { ::_Exit(code); }
  Status finalize() override { return {}; }

 private:
  launch::Job job_;
  std::shared_ptr<Values> values_;
};

std::unique_ptr<launch::Exchange> exchange(int rank, int size, std::shared_ptr<Values> values) {
  return std::make_unique<ThreadExchange>(rank, size, std::move(values));
}

std::vector<std::unique_ptr<Shm>> create_segment(int size) {
  std::vector<std::unique_ptr<Shm>> all(static_cast<size_t>(size));
  const auto values = std::make_shared<Values>();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      const auto own = exchange(rank, size, values);
      auto server = Shm::publish(*own);
      ASSERT_TRUE(server.ok());
      auto created = Shm::create(*own, std::move(*server));
      ASSERT_TRUE(created.ok()) << created.error().message();
      all[static_cast<size_t>(rank)] = std::move(*created);
    });
  for (auto& thread : threads) thread.join();
  return all;
}

}  // namespace

/// Ends each round of a wait.
struct SharedRanks::Waiting final : core::Poller {
  Waiting(SharedRanks& of, int number) : ranks(of), rank(number) {}
  bool poll() override {
    ranks.in_wait(rank);
    return true;
  }
  SharedRanks& ranks;
  const int rank;
};

SharedRanks::SharedRanks(int size)
    : shm_(create_segment(size)), ranks_(static_cast<size_t>(size)), fibers_(size) {
  for (int rank = 0; rank < size; ++rank) create(at(rank), rank);
}

SharedRanks::~SharedRanks() {
  for (Rank& rank : ranks_) destroy(rank);
}

void SharedRanks::create(Rank& rank, int number) {
  rank.instance = std::make_unique<core::Instance>(exchange(number, size(), std::make_shared<Values>()));
  rank.instance->shm = shm_[static_cast<size_t>(number)].get();
  rank.waiting = std::make_unique<Waiting>(*this, number);
  rank.instance->add(*rank.waiting);
  std::vector<core::ProcessId> members;
  for (int member = 0; member < size(); ++member) members.push_back(static_cast<core::ProcessId>(member));
  rank.comm = core::Communicator::create(
      *rank.instance, (context_ + 1) << 4,
      core::Ref<core::Group>(core::Group::create(members, static_cast<core::ProcessId>(number))));
}

void SharedRanks::destroy(Rank& rank) {
  rank.steps.reset();
  rank.comm->release();
  rank.instance->remove(*rank.waiting);
  rank.instance->shm = nullptr;
  rank.instance.reset();
}

void SharedRanks::reset(bool oversubscribed) {
  if (std::exchange(dead_, -1) >= 0) {
    ++context_;
    for (int rank = 0; rank < size(); ++rank) {
      destroy(at(rank));
      create(at(rank), rank);
    }
  }
  std::vector<coll::host::SlotArea*> areas;
  for (int rank = 0; rank < size(); ++rank) {
    Shm& shm = *shm_[static_cast<size_t>(rank)];
    auto& area = shm.region<coll::host::SlotArea>(static_cast<transport::Peer>(rank), 0);
    if (leased_) area.left.store(static_cast<uint32_t>(size()));  // that lease ends
    if (const auto index = shm.lease_region(static_cast<uint32_t>(size())); index != 0u) std::abort();
    area.clear();
    areas.push_back(&area);
  }
  leased_ = true;
  for (Rank& rank : ranks_) {
    rank.instance->oversubscribed = oversubscribed;
    rank.steps = std::make_unique<coll::host::SlotSteps>(*rank.comm);
    rank.steps->use(areas);
  }
}

void SharedRanks::in_wait(int rank) {
  core::FailureDetector& failures = at(rank).instance->failures;
  if (dead_ < 0 || failures.any_failed()) return fibers_.wait();
  if (notice_() % 4 != 0) return fibers_.yield();
  failures.report(static_cast<core::ProcessId>(dead_), Error(Errc::proc_aborted, "the test ends this rank"));
}

void SharedRanks::end_rank(int rank, uint64_t points) {
  notice_.seed(points);
  fibers_.end_rank(rank, points, [this, rank] { dead_ = rank; });
}

}  // namespace shared_ranks
