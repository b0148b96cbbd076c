// SPDX-License-Identifier: BSD-3-Clause
// Blocking collectives in shared memory in many orders of execution: sequences of calls by 2 to 5 ranks,
// sizes at the limits of slots, pages and groups of pages, results compared after each call. Builds with
// assertions only. Environment: EXPLORE_POINTS, the number of points to pass in random orders (default
// 300,000).
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "coll/host/block_table.hpp"
#include "coll/host/host.hpp"
#include "coll/host/run.hpp"
#include "coll/shared_ranks.hpp"
#include "datatype/predefined.hpp"

namespace {

using namespace weft;
using coll::Call;
using coll::Collective;
using coll::host::SlotSteps;
using shared_ranks::SharedRanks;

constexpr uintptr_t kUint64 = 0x259, kSum = 0x21;
constexpr int64_t kPage = SlotSteps::kPageBytes / 8, kSlot = coll::host::kSlotBytes / 8;  // elements
constexpr int64_t kMaxElements = 10 * kPage;

struct Step {
  Collective what;
  int64_t count;  // elements of the vector, or of a block; alltoallv: of the largest block
  int root;
  bool in_place;
  bool single_copy;      // alltoall, scatter: ranks read each other's memory
  bool one_way = false;  // alltoallv: only the root sends
};

std::string text(const Step& step) {
  return std::string(coll::name(step.what)) + " " + std::to_string(step.count) +
         (step.in_place ? " in place" : "") + (step.single_copy ? " single copy" : "") +
         (step.one_way ? " one way" : "") + " root " + std::to_string(step.root) + "; ";
}

/// Element of the input of a rank in one call.
uint64_t input(uint64_t call, int rank, uint64_t i) {
  return call * 1'000'003 + static_cast<uint64_t>(rank) * 7919 + i;
}

/// Elements [0, count) of the block that `from` sends to `to`; of a vector: `to` = 0.
uint64_t in_block(uint64_t call, int from, int to, uint64_t i) {
  return input(call, from, static_cast<uint64_t>(to) * 104'729 + i);
}

/// Elements of a block of alltoallv.
int64_t sized(const Step& step, uint64_t call, int from, int to) {
  constexpr int64_t kQuarters[] = {4, 0, 1, 4, 0, 2, 0};
  if (step.one_way) return from == step.root ? step.count : 0;
  return step.count * kQuarters[(call * 3 + static_cast<uint64_t>(from * 5 + to)) % std::size(kQuarters)] / 4;
}

/// One rank's part of a step: its buffers and the call.
class Part {
 public:
  Part(const Step& step, core::Communicator& comm, uint64_t number)
      : step_(step), number_(number), rank_(comm.rank()), size_(comm.size()), root_(rank_ == step.root) {
    call_.what = step.what;
    call_.comm = &comm;
    call_.rank = rank_;
    call_.size = size_;
    const bool rooted = step.what == Collective::bcast || step.what == Collective::reduce ||
                        step.what == Collective::gather || step.what == Collective::scatter;
    call_.root = rooted ? step.root : 0;
    call_.in_place = step.in_place && (!rooted || root_) && step.what != Collective::bcast;
    call_.bytes = static_cast<uint64_t>(step.count) * 8;
    if (step.what != Collective::barrier) prepare();
  }
  [[nodiscard]] const Call& call() const { return call_; }
  /// Returns the first wrong element, or -1.
  [[nodiscard]] int64_t wrong() const {
    for (size_t i = 0; i < expected_.size(); ++i)
      if (in_[i] != expected_[i]) return static_cast<int64_t>(i);
    return -1;
  }

 private:
  void prepare() {
    const auto n = static_cast<size_t>(step_.count), all = n * static_cast<size_t>(size_);
    const auto ranks = static_cast<uint64_t>(size_);
    const auto sum = [&](uint64_t i) {
      return ranks * input(number_, 0, i) + 7919 * ranks * (ranks - 1) / 2;
    };
    const auto fill = [&](std::vector<uint64_t>& to, size_t count, auto value) {
      to.resize(count);
      for (size_t i = 0; i < count; ++i) to[i] = value(i);
    };
    const auto mine = [&](uint64_t i) { return input(number_, rank_, i); };
    const auto blocks_to_all = [&](uint64_t i) {
      return in_block(number_, rank_, static_cast<int>(i / n), i % n);
    };
    switch (step_.what) {
      case Collective::bcast:
        fill(expected_, n, [&](uint64_t i) { return input(number_, step_.root, i); });
        in_ = root_ ? expected_ : std::vector<uint64_t>(n);
        break;
      case Collective::reduce:
      case Collective::allreduce:
        fill(out_, n, mine);
        if (root_ || step_.what == Collective::allreduce) fill(expected_, n, sum);
        in_ = call_.in_place ? out_ : std::vector<uint64_t>(expected_.size());
        break;
      case Collective::reduce_scatter_block:
        fill(out_, all, mine);
        fill(expected_, n, [&](uint64_t i) { return sum(static_cast<uint64_t>(rank_) * n + i); });
        in_.resize(n);
        call_.bytes = all * 8;
        break;
      case Collective::gather:
      case Collective::allgather:
        fill(out_, n, mine);
        if (root_ || step_.what == Collective::allgather)
          fill(expected_, all, [&](uint64_t i) { return input(number_, static_cast<int>(i / n), i % n); });
        in_.resize(expected_.size());
        if (call_.in_place)
          std::copy(out_.begin(), out_.end(),
                    in_.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(rank_) * n));
        break;
      case Collective::scatter:
        if (root_) fill(out_, all, blocks_to_all);
        if (!call_.in_place)
          fill(expected_, n, [&](uint64_t i) { return in_block(number_, step_.root, rank_, i); });
        in_.resize(n);
        break;
      case Collective::alltoallv:
        for (int peer = 0; peer < size_; ++peer) {
          const int64_t to_send = sized(step_, number_, rank_, peer),
                        to_receive = sized(step_, number_, peer, rank_);
          for (int64_t i = 0; i < to_send; ++i)
            out_.push_back(in_block(number_, rank_, peer, static_cast<uint64_t>(i)));
          for (int64_t i = 0; i < to_receive; ++i)
            expected_.push_back(in_block(number_, peer, rank_, static_cast<uint64_t>(i)));
          add_block(counts_[0], to_send);
          add_block(counts_[1], to_receive);
        }
        in_.resize(expected_.size());
        break;
      default:  // alltoall
        fill(out_, all, blocks_to_all);
        fill(expected_, all,
             [&](uint64_t i) { return in_block(number_, static_cast<int>(i / n), rank_, i % n); });
        in_ = call_.in_place ? out_ : std::vector<uint64_t>(all);
    }
    describe();
  }
  void describe() {
    datatype::Datatype* const type = datatype::predefined(kUint64);
    for (coll::Operand* operand : {&call_.send, &call_.recv}) {
      operand->type = type;
      operand->count = step_.count;
      operand->blocks = size_;
      operand->classified = true;
    }
    call_.send.address = out_.data();
    call_.recv.address = in_.data();
    if (step_.what == Collective::alltoallv) {
      int side = 0;
      for (coll::Operand* operand : {&call_.send, &call_.recv}) {
        operand->counts = {counts_[side].lengths.data(), true};
        operand->displacements = {counts_[side++].places.data(), true};
      }
    }
    const bool reduction = step_.what == Collective::reduce || step_.what == Collective::allreduce ||
                           step_.what == Collective::reduce_scatter_block;
    if (!reduction) return;
    call_.op = core::Op::predefined(kSum);
    if (step_.what == Collective::reduce_scatter_block) call_.send.count *= size_;
    if (call_.in_place) call_.send.address = in_.data();
    call_.results = static_cast<int64_t>(expected_.size());
  }
  /// Lengths and displacements of the blocks of one side.
  struct Blocks {
    std::vector<int64_t> lengths, places;
  };
  static void add_block(Blocks& blocks, int64_t length) {
    blocks.places.push_back(blocks.lengths.empty() ? 0 : blocks.places.back() + blocks.lengths.back());
    blocks.lengths.push_back(length);
  }
  const Step step_;
  const uint64_t number_;
  const int rank_, size_;
  const bool root_;
  Call call_;
  std::vector<uint64_t> out_, in_, expected_;
  Blocks counts_[2];
};

/// A step with sizes at the limits of slots, pages and groups of pages.
Step random_step(std::mt19937_64& random, int ranks) {
  constexpr Collective kAll[] = {Collective::barrier,
                                 Collective::bcast,
                                 Collective::bcast,
                                 Collective::reduce,
                                 Collective::gather,
                                 Collective::scatter,
                                 Collective::allreduce,
                                 Collective::allreduce,
                                 Collective::allgather,
                                 Collective::alltoall,
                                 Collective::alltoallv,
                                 Collective::alltoallv,
                                 Collective::reduce_scatter_block};
  Step step{kAll[random() % std::size(kAll)], 0, static_cast<int>(random() % static_cast<uint64_t>(ranks)),
            random() % 4 == 0, false};
  const bool blocks = step.what == Collective::alltoall || step.what == Collective::scatter;
  const auto page = blocks ? static_cast<int64_t>(coll::host::block_segment_bytes(ranks - 1) / 8)
                    : step.what == Collective::reduce_scatter_block ? kPage / ranks
                                                                    : kPage;
  if (random() % 2 == 0) {
    constexpr int64_t kSmall[] = {1, kSlot - 1, kSlot, kSlot + 1};
    step.count = kSmall[random() % 4];
  } else {
    step.count = static_cast<int64_t>(1 + random() % 9) * page + static_cast<int64_t>(random() % 3) - 1;
  }
  if (step.what == Collective::alltoallv) {  // larger blocks are messages
    step.count = std::min<int64_t>(step.count, coll::host::BlockPlacement::kMaxData / 8 / (ranks - 1));
    step.in_place = false;
  }
  step.single_copy = blocks && ranks > 2 && random() % 4 == 0;
  if (step.what == Collective::reduce_scatter_block)
    step.count = std::min(step.count, kPage / ranks), step.in_place = false;
  if (step.what == Collective::alltoall && step.in_place) step.single_copy = false;
  return step;
}

bool eligible(const Step& step, SharedRanks& ranks) {
  return step.count > 0 && step.count <= kMaxElements &&
         coll::host::eligible(Part(step, ranks.comm(0), 1).call());
}

struct Sequence {
  std::vector<Step> steps;
  uint32_t skipped;  // steps that pass before the first: where in the rings it begins
  bool oversubscribed;
  int dying = -1;         // this rank dies
  uint64_t lifetime = 0;  // in points
};

std::string text(const Sequence& sequence, int ranks) {
  std::string all = std::to_string(ranks) + " ranks, " + std::to_string(sequence.skipped) + " steps skipped" +
                    (sequence.oversubscribed ? ", oversubscribed" : "") +
                    (sequence.dying >= 0 ? ", rank " + std::to_string(sequence.dying) + " dies: " : ": ");
  for (const Step& step : sequence.steps) all += text(step);
  return all;
}

/// Runs a sequence in one order. Returns an empty string on success, else the failure.
std::string run(SharedRanks& ranks, const Sequence& sequence, ::explore::Order& order) {
  ranks.reset(sequence.oversubscribed);
  if (sequence.dying >= 0) ranks.end_rank(sequence.dying, sequence.lifetime);
  std::vector<std::unique_ptr<Part>> parts(static_cast<size_t>(ranks.size()));  // outlive a rank that dies
  std::string failure;
  const bool all_returned = ranks.run(
      [&](int rank) {
        SlotSteps& steps = ranks.steps(rank);
        for (uint32_t i = 0; i < sequence.skipped; ++i) steps.barrier();
        for (size_t i = 0; i < sequence.steps.size(); ++i) {
          const Step& step = sequence.steps[i];
          auto& own = parts[static_cast<size_t>(rank)];
          own = std::make_unique<Part>(step, ranks.comm(rank), i + 1);
          const Part& part = *own;
          const Status status = coll::host::Run(part.call(), steps, step.single_copy)();
          if (!status.ok()) {
            if (sequence.dying < 0 && failure.empty()) failure = status.error().message();
            return;
          }
          if (const int64_t at = part.wrong(); at >= 0 && failure.empty())
            failure = "rank " + std::to_string(rank) + ", call " + std::to_string(i) + " (" + text(step) +
                      "): element " + std::to_string(at) + " is wrong";
        }
      },
      order);
  if (!all_returned && failure.empty()) failure = "deadlock";
  return failure.empty() ? "" : failure + ": " + text(sequence, ranks.size());
}

Sequence random_sequence(std::mt19937_64& random, SharedRanks& ranks) {
  Sequence sequence{{}, static_cast<uint32_t>(random() % 9), random() % 4 == 0};
  // So many calls of alltoallv in a row use each page again, and a rank that receives nothing runs ahead.
  const bool alltoallv = random() % 4 == 0;
  const uint64_t one_way_from = random() % 2 == 0 ? random() % 3 : UINT64_MAX;
  const int sender = static_cast<int>(random() % static_cast<uint64_t>(ranks.size()));
  const uint64_t calls = (alltoallv ? coll::host::kPages : 2) + random() % 5;
  while (sequence.steps.size() < calls) {
    Step step = random_step(random, ranks.size());
    if (alltoallv) {
      if (step.what != Collective::alltoallv) continue;
      step.one_way = sequence.steps.size() >= one_way_from;
      if (step.one_way) step.root = sender;
    }
    if (step.what == Collective::barrier || eligible(step, ranks)) sequence.steps.push_back(step);
  }
  if (random() % 8 == 0) {
    sequence.dying = static_cast<int>(random() % static_cast<uint64_t>(ranks.size()));
    sequence.lifetime = random() % (100 * calls);
  }
  return sequence;
}

uint64_t points_to_pass() {
  const char* const value = std::getenv("EXPLORE_POINTS");
  return value != nullptr ? std::strtoull(value, nullptr, 10) : 300'000;
}

class Steps : public testing::Test {
 protected:
  void SetUp() override {
#ifndef WEFT_ASSERTS
    GTEST_SKIP() << "needs a build with assertions (WEFT_ASSERTS=ON), which has the points to switch at";
#endif
  }
};

TEST_F(Steps, RandomOrders) {
  std::vector<std::unique_ptr<SharedRanks>> hosts;
  for (int size = 2; size <= 5; ++size) hosts.push_back(std::make_unique<SharedRanks>(size));
  const auto passed = [&] {
    uint64_t points = 0;
    for (const auto& host : hosts) points += host->points();
    return points;
  };
  const uint64_t limit = points_to_pass();
  uint64_t seed = 0;
  for (; passed() < limit; ++seed) {
    std::mt19937_64 random(seed);
    SharedRanks& ranks = *hosts[seed % hosts.size()];
    const Sequence sequence = random_sequence(random, ranks);
    ::explore::RandomOrder order(random(), ranks.size(), 200 * sequence.steps.size());
    const std::string failure = run(ranks, sequence, order);
    ASSERT_EQ(failure, "") << "seed " << seed;
  }
  std::printf("%lu sequences, %lu points\n", static_cast<unsigned long>(seed),
              static_cast<unsigned long>(passed()));
}

/// Every order of a sequence with at most `max` delayed ranks.
void explore_delays(SharedRanks& ranks, const Sequence& sequence, size_t max) {
  uint64_t orders = 0;
  const std::function<void(const std::vector<uint64_t>&)> visit = [&](const std::vector<uint64_t>& delays) {
    ::explore::DelayedOrder order(delays);
    const uint64_t before = ranks.points();
    ASSERT_EQ(run(ranks, sequence, order), "") << "delays " << testing::PrintToString(delays);
    ++orders;
    if (delays.size() == max) return;
    const uint64_t points = ranks.points() - before;
    for (uint64_t at = delays.empty() ? 0 : delays.back() + 1;
         at < points && !testing::Test::HasFatalFailure(); ++at) {
      std::vector<uint64_t> more = delays;
      more.push_back(at);
      visit(more);
    }
  };
  visit({});
  std::printf("%lu orders of %s\n", static_cast<unsigned long>(orders), text(sequence, ranks.size()).c_str());
}

TEST_F(Steps, AllOrdersOfSmallCases) {
  SharedRanks ranks(3);
  const Step allreduce{Collective::allreduce, 4 * kPage - 1, 0, false, false},
      bcast{Collective::bcast, 1, 0, false, false};
  explore_delays(ranks, {{allreduce, bcast, allreduce}, 0, false}, 1);
  const Step allgather{Collective::allgather, 4 * kPage, 0, false, false};
  explore_delays(ranks, {{allgather, bcast, allgather}, 3, false}, 1);
  const Step small{Collective::reduce, kSlot, 1, false, false};
  explore_delays(ranks, {{bcast, small, bcast}, 0, false}, 2);
  const Step sized{Collective::alltoallv, 4, 0, false, false};
  explore_delays(ranks, {{sized, bcast, sized}, 0, false}, 2);
}

}  // namespace
