// SPDX-License-Identifier: BSD-3-Clause
// Shared memory between two jobs of one rank, both in this process: requests for a segment, messages of
// guests, rings that are used again after disconnection.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "base/local_socket.hpp"
#include "transport/shm/shm.hpp"

namespace weft::transport::shm {
namespace {

using launch::JobId;

const JobId kA = JobId::of("a"), kB = JobId::of("b");
constexpr Peer kSelf = 0, kOther = 1;  // indices in both processes

struct Deliveries final : Receiver {
  void deliver(Peer source, const std::byte* message, size_t size) override {
    messages.emplace_back(source, std::string(reinterpret_cast<const char*>(message), size));
  }
  void lost(Peer, const Error&) override {}
  Peer find(uint32_t tag, uint32_t rank) override {
    const auto known = peers.find({tag, rank});
    return known != peers.end() ? known->second : kNoPeer;
  }
  bool unknown_source(Peer, const std::byte* message, size_t size) override {
    unknown.emplace_back(reinterpret_cast<const char*>(message), size);
    return false;
  }
  std::map<std::pair<uint32_t, uint32_t>, Peer> peers;
  std::deque<std::pair<Peer, std::string>> messages;
  std::deque<std::string> unknown;
};

/// The only process of a job.
struct Job {
  explicit Job(const JobId& job_id) : id(job_id), shm(Shm::create_alone(kSelf).value()) {}
  void connect(const Job& other) {
    Segment segment = Segment::map(::dup(other.shm->memory()), 1).value();
    ASSERT_TRUE(shm->add_segment(other.id, std::move(segment), id, 0).ok());
    ASSERT_TRUE(shm->add(kOther, other.id, 0).ok());
    delivered.peers[{other.id.tag(), 0}] = kOther;
  }
  void disconnect() {
    shm->remove(kOther);
    delivered.peers.clear();
  }
  bool send(const std::string& text) const {
    if (text.size() > shm->max_message(kOther)) return false;
    std::byte* const slot = shm->reserve(kOther, text.size());
    if (slot == nullptr) return false;
    std::memcpy(slot, text.data(), text.size());
    shm->commit(kOther, text.size());
    return true;
  }
  JobId id;
  std::unique_ptr<Shm> shm;
  Deliveries delivered;
};

std::string text_of(int number) {
  return std::string(static_cast<size_t>(50 * number % 2000), 'x') + std::to_string(number);
}

TEST(Guests, MessagesThroughQueueAndRingKeepTheirOrder) {
  Job a(kA), b(kB);
  a.connect(b);
  b.connect(a);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(a.send(text_of(i)));
  a.shm->allow_ring(kOther);
  b.shm->allow_ring(kOther);
  for (int i = 20; i < 40; ++i) ASSERT_TRUE(a.send(text_of(i)));
  EXPECT_TRUE(a.send(std::string(kMaxRingMessage, 'r')));  // larger than a cell
  while (b.shm->poll(b.delivered, 64) != 0) continue;
  ASSERT_EQ(b.delivered.messages.size(), 41u);
  for (int i = 0; i < 40; ++i)
    EXPECT_EQ(b.delivered.messages[static_cast<size_t>(i)], std::make_pair(kOther, text_of(i)));
}

TEST(Guests, MessagesOfUnknownProcessesAreNotDelivered) {
  Job a(kA), b(kB);
  a.connect(b);
  ASSERT_TRUE(a.send("first"));
  b.shm->poll(b.delivered, 64);
  EXPECT_TRUE(b.delivered.messages.empty());
  EXPECT_EQ(b.delivered.unknown, std::deque<std::string>{"first"});
}

TEST(Guests, RingsAreUsedAgain) {
  Job b(kB);
  for (int round = 0; round < 3 * static_cast<int>(kRings); ++round) {
    Job a(JobId::of("a" + std::to_string(round)));
    a.connect(b);
    b.connect(a);
    a.shm->allow_ring(kOther);
    const std::string large(20'000, static_cast<char>('a' + round % 26));
    for (int i = 0; i < 10; ++i) {  // several laps of the ring
      ASSERT_TRUE(a.send(large)) << "round " << round;
      b.shm->poll(b.delivered, 64);
    }
    ASSERT_EQ(b.delivered.messages.size(), 10u);
    for (const auto& message : b.delivered.messages) ASSERT_EQ(message.second, large);
    b.delivered.messages.clear();
    a.disconnect();
    b.disconnect();
  }
}

TEST(Guests, AMessageIsReadAfterItsSenderHasDisconnected) {
  Job a(kA), b(kB);
  a.connect(b);
  b.connect(a);
  ASSERT_TRUE(a.send("last"));
  a.disconnect();
  b.shm->poll(b.delivered, 64);
  ASSERT_EQ(b.delivered.messages.size(), 1u);
  EXPECT_EQ(b.delivered.messages[0].second, "last");
}

TEST(Guests, ASegmentIsUnmappedWithTheLastProcessOfItsJob) {
  Job a(kA), b(kB);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(a.shm->has_segment(kB));
    a.connect(b);
    EXPECT_TRUE(a.shm->has_segment(kB));
    a.disconnect();
  }
}

/// Polls both sides until the request is answered.
Result<std::optional<Segment>> answer(SegmentRequest& request, JobListener& listener) {
  for (int i = 0; i < 10; ++i) {
    auto segment = request.poll();
    if (!segment || *segment) return segment;
    listener.poll();
  }
  return std::optional<Segment>();
}

TEST(JobListener, SendsTheSegmentToThoseThatNameTheJob) {
  Job a(kA);
  JobListener listener = JobListener::create(kA, a.shm->memory()).value();
  SegmentRequest request(listener.name(), kA, 1);
  auto segment = answer(request, listener);
  ASSERT_TRUE(segment.ok() && segment->has_value());
  EXPECT_EQ((*segment)->header().directory.ranks, 1u);
  SegmentRequest other_job(listener.name(), kB, 1);
  EXPECT_FALSE(answer(other_job, listener).ok());
  SegmentRequest other_size(listener.name(), kA, 2);
  EXPECT_FALSE(answer(other_size, listener).ok());
}

/// Runs `body` in a child process as another user; returns its exit code.
template <class Body>
int as_other_user(Body body) {
  constexpr uid_t kOtherUser = 65534;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::setresuid(kOtherUser, kOtherUser, kOtherUser) == 0 ? body() : 99);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

TEST(JobListener, SendsNothingToAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: needs root, to run a process as another user";
  Job a(kA);
  JobListener listener = JobListener::create(kA, a.shm->memory()).value();
  const local_socket::AbstractName address(listener.name());
  // A request that Weft would send refuses the listener of another user by itself.
  EXPECT_EQ(as_other_user([&] {
              SegmentRequest request(listener.name(), kA, 1);
              return request.poll().ok() ? 1 : 0;
            }),
            0);
  // A process that does not check, and sends the same request many times. The parent answers after it has
  // ended, and another child, which waits for the answer, gets none.
  EXPECT_EQ(as_other_user([&] {
              for (int i = 0; i < 50; ++i) {
                const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
                if (::connect(socket, address.address(), address.size()) != 0) return 1;
                if (::send(socket, &kA, sizeof kA, MSG_NOSIGNAL) != sizeof kA) return 2;
              }
              return 0;
            }),
            0);
  EXPECT_FALSE(listener.poll());  // no request is accepted
  const pid_t waiting = ::fork();
  if (waiting == 0) {
    constexpr uid_t kOtherUser = 65534;
    if (::setresuid(kOtherUser, kOtherUser, kOtherUser) != 0) ::_exit(99);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(socket, address.address(), address.size()) != 0) ::_exit(1);
    static_cast<void>(::send(socket, &kA, sizeof kA, MSG_NOSIGNAL));
    std::byte byte{};
    const auto received = local_socket::receive(socket, {&byte, 1});
    ::_exit(received && !received->descriptors.empty() ? 2 : 0);
  }
  int status = 0;
  while (::waitpid(waiting, &status, WNOHANG) == 0) {
    EXPECT_FALSE(listener.poll());
    ::usleep(1000);
  }
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  SegmentRequest request(listener.name(), kA, 1);  // the listener still serves its own user
  EXPECT_TRUE(answer(request, listener)->has_value());
}

TEST(JobListener, ARequestToAnEndedProcessFails) {
  std::string name;
  {
    Job a(kA);
    name = JobListener::create(kA, a.shm->memory())->name();
  }
  SegmentRequest request(name, kA, 1);
  EXPECT_FALSE(request.poll().ok());
}

TEST(JobListener, IncompleteAndEndedRequestsAreDropped) {
  Job a(kA);
  JobListener listener = JobListener::create(kA, a.shm->memory()).value();
  const local_socket::AbstractName address(listener.name());
  for (const size_t bytes : {size_t{0}, size_t{5}}) {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::connect(socket, address.address(), address.size()), 0);
    if (bytes != 0) {
      ASSERT_EQ(::send(socket, "12345", bytes, 0), static_cast<ssize_t>(bytes));
    }
    EXPECT_EQ(listener.poll(), bytes != 0);
    ::close(socket);
    listener.poll();
  }
  SegmentRequest request(listener.name(), kA, 1);
  EXPECT_TRUE(answer(request, listener)->has_value());
}

}  // namespace
}  // namespace weft::transport::shm
