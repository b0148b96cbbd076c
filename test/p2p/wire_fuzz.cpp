// SPDX-License-Identifier: BSD-3-Clause
// Wire fuzz: random, replayed and truncated messages of every type, delivered to an engine with requests of
// every kind in flight. Rank 0 delivers them to itself as if rank 2 had sent them; rank 2 gets the replies.
// Nothing is dereferenced (run it under ASan), every request ends when rank 2 is lost, and traffic with rank
// 1 works all the time. Arguments: number of messages, seed. With GPUs, half of the requests use device
// memory.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../check.hpp"
#include "../device/cuda_test_support.hpp"
#include "base/config.hpp"
#include "base/counters.hpp"
#include "core/communicator.hpp"
#include "core/group.hpp"
#include "datatype/predefined.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/p2p.hpp"

namespace weft::p2p {
namespace {

using Bytes = std::vector<std::byte>;
constexpr uint32_t kHonest = 1, kForger = 2;  // ranks
constexpr int kWorkTag = 77, kStopTag = 78;
constexpr size_t kRequests = 12, kRequestBytes = 100'000, kMaxMessage = 700;
constexpr int kDeliveriesPerRound = 500;  // between two exchanges with rank 1

/// A request with the forger, restarted when it has ended.
struct Victim {
  std::unique_ptr<Transfer> transfer;
  Bytes host{kRequestBytes};
  std::unique_ptr<test::Buffer> device;
  [[nodiscard]] void* address() { return device ? static_cast<void*>(device->data()) : host.data(); }
};

class Fuzzer {
 public:
  Fuzzer(core::Instance& instance, core::Communicator& comm, uint64_t seed)
      : instance_(instance), comm_(comm), random_(seed), victims_(kRequests) {
    if (device::available() && std::getenv("TEST_DEVICE") != nullptr)
      for (size_t i = 0; i < kRequests; i += 2)
        victims_[i].device = std::make_unique<test::Buffer>(
            i % 4 == 0 ? test::Buffer::Kind::device : test::Buffer::Kind::pool, kRequestBytes);
  }

  void deliver_one() {
    for (Victim& victim : victims_)
      if (!victim.transfer || victim.transfer->complete()) restart(victim);
    Bytes message = choose(4) == 0 && !sent_.empty() ? sent_[choose(sent_.size())] : make();
    if (choose(8) == 0) message.resize(choose(message.size() + 1));
    const uint32_t source = choose(16) == 0 && names_only_requests(message) ? kHonest : kForger;
    // Exactly as large as the message, so that ASan finds every read beyond it.
    const std::unique_ptr<std::byte[]> exact(new std::byte[message.size()]);
    if (!message.empty()) std::memcpy(exact.get(), message.data(), message.size());
    instance_.handlers.deliver(source, exact.get(), message.size());
    if (sent_.size() < 256)
      sent_.push_back(std::move(message));
    else
      sent_[choose(sent_.size())] = std::move(message);
    if (choose(16) == 0) instance_.progress();
  }

  /// Loses the forger: every request ends.
  void finish() {
    instance_.handlers.lost(kForger, Error(Errc::other, "the test ends"));
    core::wait_until(instance_, [&] {
      for (const Victim& victim : victims_)
        if (!victim.transfer->complete()) return false;
      return true;
    });
    CHECK(engine_of(instance_).requests.size() == 0);
    for (Victim& victim : victims_) {
      restart(victim, true);  // to or from a lost peer: ends at once
      CHECK(victim.transfer->complete() && !victim.transfer->outcome);
    }
    CHECK(engine_of(instance_).requests.size() == 0);
    discard_unreceived();
  }

  /// The messages reached requests as well as the checks.
  void check_effect(uint64_t messages) const {
    const uint64_t stale = counters::find("p2p.stale_ids")->value();
    const uint64_t malformed = counters::find("p2p.malformed_messages")->value();
    const uint64_t unknown = counters::find("am.unknown_handlers")->value();
    const uint64_t truncated = counters::find("am.truncated_messages")->value();
    std::fprintf(stderr,
                 "%llu stale ids, %llu malformed, %llu unknown, %llu truncated; %llu requests completed, "
                 "%llu failed\n",
                 static_cast<unsigned long long>(stale), static_cast<unsigned long long>(malformed),
                 static_cast<unsigned long long>(unknown), static_cast<unsigned long long>(truncated),
                 static_cast<unsigned long long>(completed_), static_cast<unsigned long long>(failed_));
    CHECK(stale > messages / 100 && malformed > messages / 100 && completed_ > messages / 100);
    CHECK(unknown > messages / 100 && truncated > messages / 100);
  }

 private:
  size_t choose(size_t n) { return random_() % n; }

  /// Messages of the forger that nobody received wait for a receive until the process ends. Without them
  /// LeakSanitizer, which does not scan the pool of messages, reports only memory that the engine forgot.
  void discard_unreceived() {
    std::vector<UnexpectedMessage*> messages;
    UnexpectedMessage::slab().for_each([&](UnexpectedMessage& message) {
      if (message.peer == kForger) messages.push_back(&message);
    });
    for (UnexpectedMessage* message : messages) {
      engine_of(instance_).delivery.extract(*message);
      engine_of(instance_).delivery.discard(*message);
    }
  }

  void restart(Victim& victim, bool sends = false) {
    if (victim.transfer) ++(victim.transfer->outcome ? completed_ : failed_);
    const bool receive = !sends && choose(2) == 0;
    victim.transfer =
        std::make_unique<Transfer>(receive ? core::Request::Kind::receive : core::Request::Kind::send);
    const auto* byte = datatype::predefined(datatype::kByte);
    const size_t bytes = sends || choose(3) != 0 ? kRequestBytes : choose(64);
    const Buffer buffer = buffer_of(victim.address(), static_cast<int64_t>(bytes), *byte);
    const int tag = static_cast<int>(choose(4));
    if (receive)
      post_receive(*victim.transfer, buffer, kForger, tag, comm_);
    else
      post_send(*victim.transfer, buffer, kForger, tag, comm_,
                sends || choose(2) == 0 ? SendMode::synchronous : SendMode::standard);
  }

  uint64_t id() {
    const Victim& victim = victims_[choose(victims_.size())];
    switch (choose(8)) {
      case 0:
        return random_();
      case 1:
        return choose(8) << 32 | choose(2 * kRequests);
      case 2:
        return victim.transfer->id ^ (uint64_t{1} << choose(64));
      default:
        return victim.transfer->id;
    }
  }

  uint64_t number() {
    switch (choose(6)) {
      case 0:
        return random_();
      case 1:
        return reinterpret_cast<uint64_t>(victims_[choose(victims_.size())].address());
      case 2:
        return kRequestBytes;
      case 3:
        return uint64_t{0} - choose(3);
      default:
        return choose(3 * kRequestBytes / 2);
    }
  }

  /// The id of a handler: of p2p, the memory registry or the connections to other jobs, or of none.
  uint8_t handler() {
    constexpr size_t kTypes = static_cast<size_t>(Type::eager_typed) + 2;  // one more than there are
    if (choose(12) == 0) return static_cast<uint8_t>(transport::am::kMemoryHandlers + choose(3));
    if (choose(16) == 0) return static_cast<uint8_t>(transport::am::kSpawnHandlers + choose(4));
    return static_cast<uint8_t>(choose(kTypes));
  }

  /// A message with a random type, ids that are often live, and numbers that are often plausible.
  Bytes make() {
    Bytes message(sizeof(Header) + choose(kMaxMessage - sizeof(Header)));
    for (size_t at = 0; at < message.size(); ++at) message[at] = static_cast<std::byte>(random_());
    if (choose(16) == 0) return message;
    Header header{static_cast<Type>(handler())};
    constexpr uint8_t kFlags[] = {0, 0, 1, 2, 3, 4, 7, 35, 39, 47, 55, 71, 103, 119, 128};
    header.flags = kFlags[choose(sizeof kFlags)];
    header.length = static_cast<uint32_t>(choose(4) == 0 ? random_() : choose(message.size()));
    header.context = comm_.context(core::Channel::user);
    header.source = kForger;
    header.tag = static_cast<int32_t>(choose(4));
    if (header.type == Type::finish_many && choose(2) == 0) header.length = static_cast<uint32_t>(choose(34));
    std::memcpy(message.data(), &header, sizeof header);
    const EagerHeader eager(header.context, header.source, header.tag);
    if (header.type == Type::eager) std::memcpy(message.data(), &eager, sizeof eager);
    const bool ids = header.type != Type::credit && header.type != Type::region;
    for (size_t at = sizeof header; at + 8 <= message.size() && at < sizeof header + 20 * 8; at += 8) {
      if (choose(8) == 0) continue;
      const bool in_id_field = at < sizeof header + 16 || header.type == Type::finish_many;
      const uint64_t value = ids && in_id_field && choose(4) != 0 ? id() : number();
      std::memcpy(message.data() + at, &value, sizeof value);
    }
    return message;
  }

  /// Whether the message acts on live requests only, of which rank 1 has none.
  static bool names_only_requests(const Bytes& message) {
    if (message.empty()) return true;
    switch (static_cast<Type>(message[0])) {
      case Type::clear_to_send:
      case Type::data:
      case Type::finish:
      case Type::finish_many:
      case Type::acknowledge:
      case Type::cancel_reply:
      case Type::chunk_ready:
      case Type::chunk_done:
        return true;
      default:
        return false;
    }
  }

  core::Instance& instance_;
  core::Communicator& comm_;
  std::mt19937_64 random_;
  std::deque<Victim> victims_;
  std::vector<Bytes> sent_;
  uint64_t completed_ = 0, failed_ = 0;  // requests, before their restart
};

void send(core::Instance& instance, core::Communicator& comm, const Bytes& data, int to, int tag) {
  Transfer t(core::Request::Kind::send);
  post_send(t, host_bytes(data.data(), data.size()), to, tag, comm);
  core::wait(instance, t);
  CHECK(t.outcome);
}

void receive(core::Instance& instance, core::Communicator& comm, Bytes& data, int from, int tag) {
  Transfer t(core::Request::Kind::receive);
  post_receive(t, host_bytes(data.data(), data.size()), from, tag, comm);
  core::wait(instance, t);
  CHECK(t.outcome && t.completion.bytes == data.size());
}

constexpr size_t kSizes[] = {8, 5000, 300'000};

/// Rank 0: sends messages of several sizes to rank 1, which returns them.
void exchange(core::Instance& instance, core::Communicator& comm, int round) {
  for (const size_t size : kSizes) {
    const Bytes data(size, static_cast<std::byte>(round));
    Bytes back(size);
    send(instance, comm, data, kHonest, kWorkTag);
    receive(instance, comm, back, kHonest, kWorkTag);
    CHECK(back == data);
  }
}

void echo(core::Instance& instance, core::Communicator& comm, int rounds) {
  for (int i = 0; i < rounds; ++i)
    for (const size_t size : kSizes) {
      Bytes data(size);
      receive(instance, comm, data, 0, kWorkTag);
      send(instance, comm, data, 0, kWorkTag);
    }
  send(instance, comm, Bytes(1), kForger, kStopTag);
}

void run(int messages, uint64_t seed) {
  CHECK(config::load());
  auto connected = launch::connect();
  CHECK(connected);
  auto& instance = *new core::Instance(std::move(*connected));
  CHECK(instance.size == 3);
  CHECK(create(instance));
  CHECK(connect(instance));
  core::Ref<core::Group> group(core::Group::create({0, 1, 2}, instance.self));
  core::Ref<core::Communicator> comm(
      core::Communicator::create(instance, core::kContextStep, std::move(group)));
  const int rounds = messages / kDeliveriesPerRound + 1;
  if (instance.self == 0) {
    Fuzzer fuzzer(instance, *comm, seed);
    for (int round = 1; round < rounds; ++round) {
      for (int i = 0; i < kDeliveriesPerRound; ++i) fuzzer.deliver_one();
      exchange(instance, *comm, round);
    }
    fuzzer.finish();
    exchange(instance, *comm, rounds);
    fuzzer.check_effect(static_cast<uint64_t>(messages));
  } else if (instance.self == kHonest) {
    echo(instance, *comm, rounds);
  } else {
    Bytes stop(1);
    receive(instance, *comm, stop, kHonest, kStopTag);
  }
  CHECK(instance.exchange->fence());
  quiesce(instance);
  CHECK(instance.exchange->finalize());
}

}  // namespace
}  // namespace weft::p2p

int main(int argc, char** argv) {
  const int messages = argc > 1 ? std::atoi(argv[1]) : 20'000;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::random_device{}();
  std::fprintf(stderr, "%d messages, seed %llu\n", messages, static_cast<unsigned long long>(seed));
  weft::p2p::run(messages, seed);
}
