// SPDX-License-Identifier: BSD-3-Clause
#include "coll/simulator.hpp"

#include <cstdlib>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <tuple>

#include "core/instance.hpp"
#include "p2p/p2p.hpp"

namespace simulator {
namespace {

using weft::p2p::Transfer;
using Key = std::tuple<uint64_t, int, int, int>;  // context, destination, source, tag

struct Network {
  std::map<Key, std::deque<Transfer*>> sends, receives;
  std::vector<std::pair<Transfer*, Transfer*>> matched;
  std::mt19937 random{1};

  void match(const Key& key) {
    auto &out = sends[key], &in = receives[key];
    while (!out.empty() && !in.empty()) {  // FIFO for equal keys
      matched.emplace_back(out.front(), in.front());
      out.pop_front();
      in.pop_front();
    }
  }
  /// Delivers the data of one matched pair; false if there is none.
  bool deliver() {
    if (matched.empty()) return false;
    const size_t at = random() % matched.size();
    const auto [from, to] = matched[at];
    matched.erase(matched.begin() + static_cast<ptrdiff_t>(at));
    weft::datatype::copy(from->address, from->count, *from->type, to->address, to->count, *to->type);
    to->completion.bytes = from->bytes;
    if (from->bytes > to->bytes)
      to->finish(weft::Error(weft::Errc::truncate, "message too long"));
    else
      to->finish();
    from->finish();
    return true;
  }
  [[nodiscard]] bool idle() const {
    for (const auto* queues : {&sends, &receives})
      for (const auto& [key, queue] : *queues)
        if (!queue.empty()) return false;
    return matched.empty();
  }
} network;

void describe(Transfer& transfer, const weft::p2p::Buffer& buffer) {
  transfer.address = buffer.address;
  transfer.count = buffer.count;
  transfer.type = buffer.type;
  transfer.bytes = static_cast<uint64_t>(buffer.count * buffer.type->size());
}

class SingleProcessExchange final : public weft::launch::Exchange {
 public:
  [[nodiscard]] const weft::launch::Job& job() const override { return job_; }
  weft::Status put(std::string_view, std::string_view) override { return {}; }
  weft::Result<std::string> get(std::string_view, int) override { return std::string(); }
  weft::Status fence() override { return {}; }
  void abort(int code, std::string_view) override { ::_Exit(code); }
  weft::Status finalize() override { return {}; }

 private:
  weft::launch::Job job_;
};

}  // namespace

weft::core::Instance& instance() {
  static weft::core::Instance made(std::make_unique<SingleProcessExchange>());
  return made;
}

Job::Job(int size) {
  static uint64_t contexts = 1;
  std::vector<weft::core::ProcessId> members;
  for (int rank = 0; rank < size; ++rank) members.push_back(static_cast<weft::core::ProcessId>(rank));
  const uint64_t context = contexts++ << 1;
  for (int rank = 0; rank < size; ++rank) {
    weft::core::Ref<weft::core::Group> group(
        weft::core::Group::create(members, static_cast<weft::core::ProcessId>(rank)));
    comms_.push_back(weft::core::Communicator::create(instance(), context, std::move(group)));
  }
}

Job::~Job() {
  for (auto* comm : comms_) comm->release();
}

std::string run(const std::vector<weft::coll::Call>& calls, const weft::coll::Algorithm& algorithm,
                unsigned seed, int times, const std::function<void()>& before,
                const std::function<void()>& after) {
  network = {};
  network.random.seed(seed);
  std::vector<std::unique_ptr<weft::coll::Schedule>> schedules;
  for (const auto& call : calls)
    schedules.push_back(std::make_unique<weft::coll::Schedule>(call, 7, algorithm));
  for (int time = 0; time < times; ++time) {
    before();
    std::vector<size_t> running;
    for (size_t rank = 0; rank < calls.size(); ++rank) {
      schedules[rank]->begin();
      running.push_back(rank);
    }
    for (int quiet = 0; !running.empty(); ++quiet) {
      if (quiet > 1000) return "deadlock: " + std::to_string(running.size()) + " ranks wait";
      const size_t at = network.random() % running.size();
      const size_t rank = running[at];
      const int round = schedules[rank]->round();
      if (schedules[rank]->advance()) running.erase(running.begin() + static_cast<ptrdiff_t>(at));
      if (schedules[rank]->round() != round) quiet = 0;
      if (network.random() % 2 == 0 && network.deliver()) quiet = 0;
    }
    for (auto& schedule : schedules)
      if (auto ended = schedule->end(); !ended.ok()) return ended.error().message();
    if (!network.idle()) return "an unmatched message remains";
    after();
  }
  return {};
}

}  // namespace simulator

namespace weft::p2p {

Status Transfer::start() { return {}; }
Status Transfer::cancel() { return {}; }
void Transfer::destroy() {}
void DeletePersistentBuffer::operator()(PersistentBuffer*) const {}

/// Every send has a transfer, whose schedule waits for it.
bool send_now(const Buffer&, int, int, core::Communicator&, core::Channel) { return false; }

void post_send(Transfer& transfer, const Buffer& buffer, int dest, int tag, core::Communicator& comm,
               SendMode, core::Channel channel) {
  simulator::describe(transfer, buffer);
  const simulator::Key key{comm.context(channel), dest, comm.rank(), tag};
  simulator::network.sends[key].push_back(&transfer);
  simulator::network.match(key);
}

void post_receive(Transfer& transfer, const Buffer& buffer, int source, int tag, core::Communicator& comm,
                  core::Channel channel) {
  simulator::describe(transfer, buffer);
  const simulator::Key key{comm.context(channel), comm.rank(), source, tag};
  simulator::network.receives[key].push_back(&transfer);
  simulator::network.match(key);
}

}  // namespace weft::p2p
