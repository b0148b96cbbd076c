// SPDX-License-Identifier: BSD-3-Clause
// Every row of the selection table with up to 40 simulated ranks, against the oracle.
#include "coll/algorithm/algorithms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "coll/select/table.hpp"
#include "coll/simulator.hpp"
#include "datatype/predefined.hpp"
#include "reference/coll.hpp"

namespace {

using namespace weft;
using coll::Call;
using coll::Collective;
using reference::Field;
using reference::Layout;

constexpr uintptr_t kUint32 = 0x251, kSum = 0x21;

struct Types {
  datatype::Datatype& word = *datatype::predefined(kUint32);
  datatype::Datatype& pair = *datatype::contiguous(2, word).value();
  datatype::Datatype& vector = *datatype::vector(2, 1, reference::kGaps.stride, word).value();
  datatype::Datatype& gaps = *datatype::resized(vector, 0, reference::kGaps.extent * 4).value();
  ~Types() {
    for (datatype::Datatype* type : {&gaps, &vector, &pair}) type->close_handle();
  }
};

const datatype::Datatype& type_of(const Layout& layout) {
  static const Types types;
  return layout.words == 1 ? types.word : layout.extent == 2 ? types.pair : types.gaps;
}

void compose(void* in, void* inout, int* count, void** handle) {
  const bool gaps = *handle == reinterpret_cast<void*>(type_of(reference::kGaps).handle());
  const Layout layout = gaps ? reference::kGaps : reference::kPair;
  auto *left = static_cast<uint32_t*>(in), *right = static_cast<uint32_t*>(inout);
  for (int i = 0; i < *count; ++i, left += layout.extent, right += layout.extent) {
    const auto product =
        reference::Affine{left[0], left[layout.stride]} * reference::Affine{right[0], right[layout.stride]};
    right[0] = product.a;
    right[layout.stride] = product.b;
  }
}

/// All ranks are neighbors: neighborhood collectives are equivalent to the regular collectives.
struct Complete final : core::Topology {
  explicit Complete(int size) : Topology(Kind::distributed_graph) {
    for (int rank = 0; rank < size; ++rank) sources.push_back(rank);
    destinations = sources;
  }
  [[nodiscard]] std::unique_ptr<Topology> clone() const override { return std::make_unique<Complete>(*this); }
};

/// The collective equivalent to a neighborhood collective on a complete graph.
Collective on_complete_graph(Collective what) {
  switch (what) {
    case Collective::neighbor_allgather:
      return Collective::allgather;
    case Collective::neighbor_allgatherv:
      return Collective::allgatherv;
    case Collective::neighbor_alltoall:
      return Collective::alltoall;
    case Collective::neighbor_alltoallv:
      return Collective::alltoallv;
    case Collective::neighbor_alltoallw:
      return Collective::alltoallw;
    default:
      return what;
  }
}

/// Parameters of one test case.
struct Case {
  Collective what;
  int size;
  int64_t n;  // elements of a block or vector
  int root;
  bool in_place;
  Layout layout;
  Collective neighbors;  // the neighborhood collective to run on a complete graph, else `what`
  [[nodiscard]] bool affine() const { return layout.words == 2; }
};

/// Counts of the v-variants: uneven, some zero; symmetric, as in-place exchanges require.
int64_t count_of(const Case& c, int from, int to) {
  const bool uneven = c.what == Collective::gatherv || c.what == Collective::scatterv ||
                      c.what == Collective::allgatherv || c.what == Collective::alltoallv ||
                      c.what == Collective::alltoallw || c.what == Collective::reduce_scatter;
  if (!uneven) return c.n;
  if (c.what == Collective::alltoallv || c.what == Collective::alltoallw) return c.n * ((from + to) % 3);
  return c.n * ((c.what == Collective::scatterv || c.what == Collective::reduce_scatter ? to : from) % 3);
}

/// Send or receive side of one rank: the field and its blocks, in reverse order with gaps if displacements
/// allow it.
struct Side {
  Field field{reference::kWord, 0};
  std::vector<int64_t> counts, displacements, byte_displacements;
  std::vector<const datatype::Datatype*> types;

  void shape(const Layout& layout, std::vector<int64_t> blocks, bool reversed) {
    counts = std::move(blocks);
    displacements.assign(counts.size(), 0);
    int64_t end = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      const size_t block = reversed ? counts.size() - 1 - i : i;
      displacements[block] = end;
      end += counts[block] + (reversed ? 1 : 0);
    }
    for (const int64_t displacement : displacements)
      byte_displacements.push_back(displacement * layout.extent * 4);
    types.assign(counts.size(), &type_of(layout));
    field = Field(layout, end);
  }
  void describe(coll::Operand& operand, bool v, bool w) {
    operand.address = field.data();
    operand.type = w ? nullptr : types.empty() ? nullptr : types[0];
    operand.count = counts.empty() ? 0 : counts[0];
    if (!v) return;
    operand.counts = {counts.data(), true};
    operand.displacements = {w ? byte_displacements.data() : displacements.data(), true};
    if (w) operand.types = types.data();
  }
};

struct Rank {
  Side send, recv;
  Field expected{reference::kWord, 0};
};

class Simulation {
 public:
  Simulation(const Case& of, const coll::Algorithm& algorithm)
      : c_(of), algorithm_(algorithm), job_(of.size) {}
  std::string operator()(unsigned seed) {
    ranks_.resize(static_cast<size_t>(c_.size));
    for (int r = 0; r < c_.size; ++r) build(r);
    for (int r = 0; r < c_.size; ++r) calls_.push_back(call(r));
    std::string wrong;
    const std::string failed = simulator::run(
        calls_, algorithm_, seed, 2,
        [&] {
          for (int r = 0; r < c_.size; ++r) load(r);
        },
        [&] {
          for (int r = 0; r < c_.size; ++r)
            if (const int64_t at = ranks_[r].recv.field.difference(ranks_[r].expected); at >= 0)
              wrong = "rank " + std::to_string(r) + " word " + std::to_string(at);
        });
    return failed.empty() ? wrong : failed;
  }

 private:
  [[nodiscard]] bool v() const {
    return c_.what == Collective::gatherv || c_.what == Collective::scatterv ||
           c_.what == Collective::allgatherv || c_.what == Collective::alltoallv ||
           c_.what == Collective::alltoallw;
  }
  [[nodiscard]] bool w() const { return c_.what == Collective::alltoallw; }
  [[nodiscard]] bool reduction() const {
    return c_.what == Collective::reduce || c_.what == Collective::allreduce ||
           c_.what == Collective::reduce_scatter || c_.what == Collective::reduce_scatter_block ||
           c_.what == Collective::scan || c_.what == Collective::exscan;
  }
  [[nodiscard]] bool rooted() const {
    return c_.what == Collective::bcast || c_.what == Collective::reduce || c_.what == Collective::gather ||
           c_.what == Collective::gatherv || c_.what == Collective::scatter ||
           c_.what == Collective::scatterv;
  }
  std::vector<int64_t> row(int r, bool outgoing) const {
    std::vector<int64_t> counts;
    for (int i = 0; i < c_.size; ++i) counts.push_back(outgoing ? count_of(c_, r, i) : count_of(c_, i, r));
    return counts;
  }
  [[nodiscard]] int64_t total(int r) const {
    int64_t sum = 0;
    for (const int64_t n : row(r, true)) sum += n;
    return sum;
  }

  void build(int r) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    const bool root = r == c_.root;
    std::vector<int64_t> out, in;
    switch (c_.what) {
      case Collective::barrier:
        break;
      case Collective::bcast:
        in = {c_.n};
        break;
      case Collective::reduce:
        out = {c_.n};
        in = {root ? c_.n : 0};
        break;
      case Collective::allreduce:
      case Collective::scan:
      case Collective::exscan:
        out = in = {c_.n};
        break;
      case Collective::reduce_scatter:
      case Collective::reduce_scatter_block:
        out = {total(r)};
        in = {c_.in_place ? total(r) : count_of(c_, r, r)};
        break;
      case Collective::gather:
      case Collective::gatherv:
        out = {count_of(c_, r, c_.root)};
        if (root) in = row(r, false);
        break;
      case Collective::scatter:
      case Collective::scatterv:
        in = {count_of(c_, c_.root, r)};
        if (root) out = row(r, true);
        break;
      case Collective::allgather:
      case Collective::allgatherv:
        out = {count_of(c_, r, r)};
        in = row(r, false);
        break;
      case Collective::alltoall:
      case Collective::alltoallv:
      case Collective::alltoallw:
        out = row(r, true);
        in = row(r, false);
        break;
      default:
        FAIL() << coll::name(c_.what);
    }
    rank.send.shape(c_.layout, out, v() && out.size() > 1);
    rank.recv.shape(c_.layout, in, v() && in.size() > 1);
  }

  Call call(int r) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    Call call;
    call.what = c_.what;
    call.comm = &job_.comm(r);
    call.rank = r;
    call.size = c_.size;
    call.root = rooted() ? c_.root : 0;
    call.in_place = c_.in_place && (!rooted() || r == c_.root);
    rank.send.describe(call.send, v() && rank.send.counts.size() > 1, w());
    rank.recv.describe(call.recv, v() && rank.recv.counts.size() > 1, w());
    if (v() && c_.size == 1) {
      rank.send.describe(call.send, c_.what != Collective::gatherv && c_.what != Collective::allgatherv, w());
      rank.recv.describe(call.recv, c_.what != Collective::scatterv, w());
    }
    call.send.blocks = call.recv.blocks = c_.size;
    if (c_.neighbors != c_.what) {
      call.what = c_.neighbors;
      call.comm->topology = std::make_unique<Complete>(c_.size);
    }
    if (reduction()) reduce(call);
    call.bytes = static_cast<uint64_t>(c_.n * type_of(c_.layout).size());
    return call;
  }

  void reduce(Call& call) {
    static core::Op* const affine = core::Op::create(simulator::instance(), compose, false);
    call.op = c_.affine() ? affine : core::Op::predefined(kSum);
    if (call.in_place) call.send.address = call.recv.address;
    call.recv.type = call.send.type;
    call.results = c_.what == Collective::reduce && call.rank != c_.root ? 0 : call.recv.count;
    if (c_.what == Collective::reduce_scatter || c_.what == Collective::reduce_scatter_block) {
      if (counts_.empty()) counts_ = row(0, true);
      call.recv.count = call.results = count_of(c_, call.rank, call.rank);
      if (c_.what == Collective::reduce_scatter) call.recv.counts = {counts_.data(), true};
    }
  }

  /// Fills send (in place: recv) with the inputs, and `expected` with the result.
  void load(int r) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    const bool in_place = calls_[static_cast<size_t>(r)].in_place;
    rank.recv.field.clear();
    for (size_t i = 0; i < rank.send.counts.size(); ++i)
      reference::fill(rank.send.field, rank.send.displacements[i], rank.send.counts[i],
                      [&](int64_t k) { return reference::input(r, static_cast<int>(i), k); });
    if (in_place) load_in_place(r, rank);
    rank.expected = rank.recv.field;
    if (c_.what == Collective::bcast && r == c_.root)
      reference::fill(rank.recv.field, 0, c_.n, [&](int64_t k) { return reference::input(r, 0, k); });
    expect(r, rank);
  }
  void load_in_place(int r, Rank& rank) {
    Side& recv = rank.recv;
    if (reduction()) {
      reference::fill(recv.field, 0, recv.counts[0], [&](int64_t k) { return reference::input(r, 0, k); });
    } else if (c_.what == Collective::scatter || c_.what == Collective::scatterv) {
      return;
    } else {
      const bool all = c_.what == Collective::alltoall || v()
                           ? c_.what != Collective::gatherv && c_.what != Collective::allgatherv
                           : false;
      for (size_t i = 0; i < recv.counts.size(); ++i)
        if (all || static_cast<int>(i) == r)
          reference::fill(recv.field, recv.displacements[i], recv.counts[i],
                          [&](int64_t k) { return reference::input(r, all ? static_cast<int>(i) : 0, k); });
    }
  }
  void expect(int r, Rank& rank) {
    const auto block = [&](size_t i, auto value) {
      reference::fill(rank.expected, rank.recv.displacements[i], rank.recv.counts[i], value);
    };
    switch (c_.what) {
      case Collective::barrier:
        return;
      case Collective::bcast:
        return block(0, [&](int64_t k) { return reference::input(c_.root, 0, k); });
      case Collective::scatter:
      case Collective::scatterv:
        if (c_.in_place && r == c_.root) return;
        return block(0, [&](int64_t k) { return reference::input(c_.root, r, k); });
      case Collective::gather:
      case Collective::gatherv:
      case Collective::allgather:
      case Collective::allgatherv:
      case Collective::alltoall:
      case Collective::alltoallv:
      case Collective::alltoallw: {
        const bool exchange = c_.what == Collective::alltoall || c_.what == Collective::alltoallv ||
                              c_.what == Collective::alltoallw;
        for (size_t i = 0; i < rank.recv.counts.size(); ++i)
          block(i, [&](int64_t k) { return reference::input(static_cast<int>(i), exchange ? r : 0, k); });
        return;
      }
      case Collective::exscan:
        if (r == 0) return;
        return block(0, [&](int64_t k) { return reference::reduced(r - 1, k, c_.affine()); });
      case Collective::scan:
        return block(0, [&](int64_t k) { return reference::reduced(r, k, c_.affine()); });
      case Collective::reduce:
      case Collective::allreduce:
        return block(0, [&](int64_t k) { return reference::reduced(c_.size - 1, k, c_.affine()); });
      case Collective::reduce_scatter:
      case Collective::reduce_scatter_block: {
        int64_t before = 0;
        for (int i = 0; i < r; ++i) before += count_of(c_, i, i);
        reference::fill(rank.expected, 0, count_of(c_, r, r), [&](int64_t k) {
          return reference::reduced(c_.size - 1, before * c_.layout.words + k, c_.affine());
        });
        return;
      }
      default:
        FAIL() << coll::name(c_.what);
    }
  }

  Case c_;
  const coll::Algorithm& algorithm_;
  simulator::Job job_;
  std::vector<Rank> ranks_;
  std::vector<Call> calls_;
  std::vector<int64_t> counts_;
};

class Algorithms : public testing::TestWithParam<const coll::select::Row*> {};

TEST_P(Algorithms, MatchTheOracle) {
  using coll::select::Requirement;
  const coll::select::Row& row = *GetParam();
  unsigned seed = 1;
  for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 24, 33, 40})
    for (const int64_t n : {0, 1, 3, 50, 2000, 90000})
      for (const Layout& layout : {reference::kWord, reference::kPair, reference::kGaps})
        for (const bool in_place : {false, true}) {
          if (n > 3 && (size > 17 || layout.extent == 2)) continue;
          if (n > 50 && size > 9) continue;
          if (n > 2000 && (size > 5 || row.what != Collective::bcast)) continue;  // segments
          if (row.requirement == Requirement::power_of_two && (size & (size - 1)) != 0) continue;
          if (row.requirement == Requirement::commutative && layout.words == 2) continue;
          const Collective what = on_complete_graph(row.what);
          if (in_place &&
              (row.requirement == Requirement::not_in_place || what == Collective::bcast || what != row.what))
            continue;
          if (!in_place && row.requirement == Requirement::in_place) continue;
          const Case c{what, size, n, static_cast<int>(seed * 5) % size, in_place, layout, row.what};
          ASSERT_EQ(Simulation(c, *row.algorithm)(seed++), "")
              << coll::name(row.what) << " " << row.algorithm->name << " ranks " << size << " n " << n
              << " root " << c.root << " in place " << in_place << " extent " << layout.extent;
        }
}

std::vector<const coll::select::Row*> distinct_rows() {
  std::vector<const coll::select::Row*> rows;
  for (const auto& row : coll::select::table()) {
    const bool known = std::any_of(rows.begin(), rows.end(), [&](const auto* other) {
      return other->what == row.what && other->algorithm == row.algorithm;
    });
    if (!known) rows.push_back(&row);
  }
  // Only coll.order=rank selects these.
  static const coll::select::Row chains[] = {{Collective::scan, &coll::algorithm::scan_chain},
                                             {Collective::exscan, &coll::algorithm::exscan_chain}};
  for (const auto& row : chains) rows.push_back(&row);
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Table, Algorithms, testing::ValuesIn(distinct_rows()), [](const auto& info) {
  return std::string(coll::name(info.param->what)) + "_" + info.param->algorithm->name;
});

TEST(Selection, EveryCallMatchesARow) {
  simulator::Job job(1);
  for (int what = 0; what < coll::kCollectives; ++what)
    for (const int size : {1, 2, 3, 8, 9, 64, 100, 5000})
      for (const uint64_t bytes : {uint64_t{0}, uint64_t{8}, uint64_t{1} << 16, uint64_t{1} << 40})
        for (const bool in_place : {false, true}) {
          Call call;
          call.what = static_cast<Collective>(what);
          call.comm = &job.comm(0);
          call.size = size;
          call.bytes = bytes;
          call.in_place = in_place;
          call.op = core::Op::predefined(kSum);
          const coll::Algorithm& chosen = coll::select::by_table(call);
          const bool fits =
              std::any_of(coll::select::table().begin(), coll::select::table().end(), [&](const auto& row) {
                return row.what == call.what && row.algorithm == &chosen && coll::select::matches(row, call);
              });
          EXPECT_TRUE(fits) << coll::name(call.what) << " " << size << " ranks " << bytes << " bytes";
        }
}

}  // namespace
