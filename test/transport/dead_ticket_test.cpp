// SPDX-License-Identifier: BSD-3-Clause
// A producer that is killed between taking a ticket of an MPSC queue and filling its cell: the receiver skips
// the cell, and no cell that a living producer is filling.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "base/counters.hpp"
#include "transport/shm/shm.hpp"

namespace weft::transport::shm {
namespace {

constexpr int kRanks = 3;
constexpr Peer kReceiver = 0, kVictim = 1, kSurvivor = 2;

/// The exchange of a job whose ranks are threads of this process.
struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  int arrived = 0;
};

class ThreadExchange final : public launch::Exchange {
 public:
  ThreadExchange(Shared& shared, int rank) : shared_(shared) {
    job_.rank = job_.local_rank = rank;
    job_.size = job_.local_size = kRanks;
  }
  [[nodiscard]] const launch::Job& job() const override { return job_; }
  [[nodiscard]] Status put(std::string_view key, std::string_view value) override {
    const std::lock_guard guard(shared_.mutex);
    shared_.values[std::string(key)] = value;
    return {};
  }
  [[nodiscard]] Result<std::string> get(std::string_view key, int) override {
    const std::lock_guard guard(shared_.mutex);
    return shared_.values.at(std::string(key));
  }
  [[nodiscard]] Status fence() override {
    std::unique_lock guard(shared_.mutex);
    ++shared_.arrived;
    shared_.changed.notify_all();
    shared_.changed.wait(guard, [&] { return shared_.arrived == kRanks; });
    return {};
  }
  void abort(int, std::string_view) override {}
  [[nodiscard]] Status finalize() override { return {}; }

 private:
  Shared& shared_;
  launch::Job job_;
};

struct Texts final : Receiver {
  void deliver(Peer, const std::byte* message, size_t size) override {
    texts.emplace_back(reinterpret_cast<const char*>(message), size);
  }
  void lost(Peer, const Error&) override {}
  Peer find(uint32_t, uint32_t) override { return kNoPeer; }
  bool unknown_source(Peer, const std::byte* message, size_t size) override {
    deliver(kNoPeer, message, size);
    return false;
  }
  std::vector<std::string> texts;
};

using Texting = std::vector<std::string>;

bool never(Peer) { return false; }
bool victim_failed(Peer peer) { return peer == kVictim; }

/// Takes a ticket for a message and writes half of it. Returns false if the queue is full.
bool begin(Shm& shm, Peer to, const std::string& text) {
  std::byte* const cell = shm.reserve(to, text.size());
  if (cell != nullptr) std::memcpy(cell, text.data(), text.size() / 2);
  return cell != nullptr;
}

bool send(Shm& shm, Peer to, const std::string& text) {
  std::byte* const cell = shm.reserve(to, text.size());
  if (cell == nullptr) return false;
  std::memcpy(cell, text.data(), text.size());
  shm.commit(to, text.size());
  return true;
}

/// Runs `body` in a child process, which is then killed and reaped.
template <class Body>
void run_and_kill(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
}

/// Three ranks of one job; all messages go through the queues (WEFT_SHM_RING_AFTER_MESSAGES).
class DeadTicket : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(config::load().ok());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([this, rank] {
        ThreadExchange exchange(shared_, rank);
        Server server = Shm::publish(exchange).value();
        ASSERT_TRUE(exchange.share().ok());
        ranks_[rank] = Shm::create(exchange, std::move(server)).value();
      });
    for (std::thread& thread : threads) thread.join();
  }
  [[nodiscard]] Shm& rank(Peer peer) const { return *ranks_[peer]; }
  Texting receive() {
    while (rank(kReceiver).poll(texts_, 64) != 0) continue;
    return std::exchange(texts_.texts, {});
  }

  Shared shared_;
  std::unique_ptr<Shm> ranks_[kRanks];
  Texts texts_;
};

TEST_F(DeadTicket, MessagesBehindItAreReadOnceTheFailureIsKnown) {
  ASSERT_TRUE(send(rank(kSurvivor), kReceiver, "before"));
  run_and_kill([&] {
    if (!send(rank(kVictim), kReceiver, "last") || !begin(rank(kVictim), kReceiver, "never sent")) ::_exit(1);
  });
  ASSERT_TRUE(send(rank(kSurvivor), kReceiver, "behind"));
  EXPECT_EQ(receive(), (Texting{"before", "last"}));
  EXPECT_EQ(rank(kReceiver).skip_dead_tickets(never), 0u);
  EXPECT_EQ(receive(), Texting{});
  const uint64_t before = counters::find("shm.dead_tickets")->value();
  EXPECT_EQ(rank(kReceiver).skip_dead_tickets(victim_failed), 1u);
  EXPECT_EQ(receive(), Texting{"behind"});
  EXPECT_EQ(counters::find("shm.dead_tickets")->value(), before + 1);
  for (int i = 0; i < 1000; ++i) {  // the cell is used again
    ASSERT_TRUE(send(rank(kSurvivor), kReceiver, std::to_string(i)));
    ASSERT_EQ(receive(), Texting{std::to_string(i)});
  }
}

TEST_F(DeadTicket, ACellThatALivingRankFillsIsNotSkipped) {
  run_and_kill([&] {
    if (!begin(rank(kVictim), kReceiver, "never sent")) ::_exit(1);
  });
  ASSERT_TRUE(begin(rank(kSurvivor), kReceiver, "slow"));
  EXPECT_EQ(rank(kReceiver).skip_dead_tickets(victim_failed), 1u);
  EXPECT_EQ(rank(kReceiver).skip_dead_tickets(victim_failed), 0u);
  EXPECT_EQ(receive(), Texting{});
  rank(kSurvivor).commit(kReceiver, 2);
  EXPECT_EQ(receive(), Texting{"sl"});
}

// The victim is killed after it has stored its claim, and another rank takes the ticket.
TEST_F(DeadTicket, AClaimWithoutTicketHasNoEffect) {
  Segment segment = Segment::map(::dup(rank(kReceiver).memory()), kRanks).value();
  auto& claim = segment.area(kVictim).claim;
  const uint64_t ticket = segment.area(kReceiver).tail.load();
  claim.store(claim_of(kReceiver, ticket));
  EXPECT_EQ(rank(kReceiver).skip_dead_tickets(victim_failed), 0u);
  ASSERT_TRUE(begin(rank(kSurvivor), kReceiver, "slow"));
  EXPECT_EQ(rank(kReceiver).skip_dead_tickets(victim_failed), 0u);
  rank(kSurvivor).commit(kReceiver, 4);
  EXPECT_EQ(receive().size(), 1u);
  claim.store(0);
}

TEST_F(DeadTicket, AFullQueueBecomesUsableAgain) {
  run_and_kill([&] {
    if (!begin(rank(kVictim), kReceiver, "never sent")) ::_exit(1);
  });
  size_t sent = 0;
  while (send(rank(kSurvivor), kReceiver, "x")) ++sent;
  EXPECT_EQ(sent, kQueueCells - 1);
  EXPECT_EQ(receive().size(), 0u);
  EXPECT_EQ(rank(kReceiver).skip_dead_tickets(victim_failed), 1u);
  EXPECT_EQ(receive().size(), sent);
  EXPECT_TRUE(send(rank(kSurvivor), kReceiver, "x"));
  // The claim of the sender that found the queue full is cleared.
  Segment segment = Segment::map(::dup(rank(kReceiver).memory()), kRanks).value();
  EXPECT_EQ(segment.area(kSurvivor).claim.load(), 0u);
}

TEST_F(DeadTicket, AllButOneRankMayDie) {
  run_and_kill([&] {
    if (!begin(rank(kVictim), kReceiver, "never sent")) ::_exit(1);
  });
  run_and_kill([&] {
    if (!begin(rank(kSurvivor), kReceiver, "nor this")) ::_exit(1);
  });
  EXPECT_EQ(rank(kReceiver).skip_dead_tickets(victim_failed), 1u);
  EXPECT_EQ(rank(kReceiver).skip_dead_tickets([](Peer peer) { return peer != kReceiver; }), 1u);
  EXPECT_EQ(rank(kReceiver).skip_dead_tickets([](Peer) { return true; }), 0u);
}

/// The process `rank` of another job on this host, as a guest in the segment of the receiver.
std::unique_ptr<Shm> guest_of(const Shm& receiver, const char* job) {
  std::unique_ptr<Shm> guest = Shm::create_alone(kVictim).value();
  const auto own = launch::JobId::of(job), other = launch::JobId::of("receiver");
  EXPECT_TRUE(guest->add_segment(other, Segment::map(::dup(receiver.memory()), kRanks).value(), own, 0).ok());
  EXPECT_TRUE(guest->add(kReceiver, other, 0).ok());
  return guest;
}

TEST_F(DeadTicket, GuestsThatWereKilledAreFoundByTheirPid) {
  run_and_kill([&] {
    const auto guest = guest_of(rank(kReceiver), "killed");
    if (!begin(*guest, kReceiver, "never sent")) ::_exit(1);
    ::kill(::getpid(), SIGKILL);
  });
  const auto guest = guest_of(rank(kReceiver), "living");
  ASSERT_TRUE(begin(*guest, kReceiver, "slow"));
  EXPECT_EQ(rank(kReceiver).skip_dead_tickets(never), 1u);
  EXPECT_EQ(rank(kReceiver).skip_dead_tickets(never), 0u);
  guest->commit(kReceiver, 4);
  EXPECT_EQ(receive().size(), 1u);
}

}  // namespace
}  // namespace weft::transport::shm
