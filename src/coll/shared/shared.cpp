// SPDX-License-Identifier: BSD-3-Clause
// Collectives by lanes: which calls, and how each is done. Data beyond a page go in several steps.
#include "coll/shared/shared.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/config.hpp"
#include "coll/algorithm/tree.hpp"
#include "coll/gpu/agreement.hpp"
#include "coll/gpu/plan.hpp"
#include "coll/select/table.hpp"
#include "coll/shared/channel.hpp"
#include "coll/shared/stream.hpp"

namespace weft::coll::shared {
namespace {

using algorithm::Part;

config::Choice enabled{"coll.shared",
                       0,
                       {"on", "off"},
                       "blocking collectives in shared memory, where no algorithm is set for them"};
config::Size after{"coll.shared_after", 8, 0, 1 << 30,
                   "blocking collectives that a communicator makes before it takes shared memory for them"};
config::Size max_ranks{"coll.shared_ranks", 32, 2, 4096,
                       "ranks of a communicator that may use shared memory"};
config::Size max_bytes{"coll.shared_max", 64 << 10, 0, 1 << 30,
                       "bytes of a vector, or of a block, up to which collectives use shared memory"};
config::Size max_total{"coll.shared_total", 1 << 20, 0, 1 << 30,
                       "bytes of all blocks of a rank up to which collectives use shared memory"};

config::Size max_copied{
    "coll.shared_copy_max", 24 << 10, 0, 1 << 30,
    "bytes of a vector or block up to which data are copied into shared memory; beyond, ranks "
    "read each other's memory where they can"};

/// Bytes of one buffer up to which all ranks reduce everything, instead of a part each.
constexpr size_t kReduceAll = 2 << 10;

/// One run of a collective.
class Run {
 public:
  Run(const Call& call, Channel& channel) : call_(call), channel_(channel) {}
  Status operator()();

 private:
  void barrier();
  void bcast();
  void reduce();
  void allreduce_all();
  void allreduce_parts();
  void allreduce_group(int64_t first, int64_t n, uint32_t pages);
  void allgather();
  void alltoall();
  void gather();
  void scatter();
  void reduce_direct();
  void allgather_direct(std::byte* in, const std::byte* mine);
  void alltoall_direct(std::byte* in, const std::byte* blocks);

  [[nodiscard]] bool root() const { return call_.rank == call_.root; }
  /// Opens a stream; false, and noted, when that fails: the rank then shows and takes nothing.
  void open(Stream& stream, const p2p::Buffer& buffer, bool load) { note(stream.open(buffer, load)); }
  void close(Stream& stream) {
    if (outcome_.ok()) note(stream.store());
  }
  void note(Status status) {
    if (!status.ok() && outcome_.ok()) [[unlikely]]
      outcome_ = std::move(status);
  }
  void put(uint32_t step, const void* from, size_t n);
  [[nodiscard]] Shown take(int rank, uint32_t step, size_t n);
  void get(int rank, uint32_t step, void* to, size_t n);
  template <class F>
  void others(F&& f) const {
    for (int rank = call_.rank + 1; rank < call_.size; ++rank) f(rank);
    for (int rank = 0; rank < call_.rank; ++rank) f(rank);
  }
  /// Whether ranks read each other's memory for this call.
  [[nodiscard]] bool direct() const { return call_.bytes > max_copied && channel_.direct(); }
  void put_address(uint32_t step, const void* address);
  void get_direct(int rank, uint32_t step, void* to, uint64_t offset, size_t n);
  template <class Write, class Read>
  void exchange(uint32_t steps, Write&& write, Read&& read);
  void write_blocks(uint32_t step, const std::byte* blocks, uint64_t first, uint64_t n);
  /// Where the block of rank `of` lies among those that rank `by` shows: all but its own.
  [[nodiscard]] static uint64_t place(int of, int by) { return static_cast<uint64_t>(of < by ? of : of - 1); }
  void fold(const std::byte* theirs, std::byte* mine, int64_t n) const {
    call_.op->apply(theirs, mine, n, *call_.recv.type);
  }
  [[nodiscard]] size_t element() const { return static_cast<size_t>(call_.recv.type->size()); }

  const Call& call_;
  Channel& channel_;
  Status outcome_;
};

/// `total` bytes cut into steps of `most` bytes; one step for nothing.
struct Slices {
  uint64_t total, most;
  [[nodiscard]] uint32_t steps() const {
    return static_cast<uint32_t>(std::max<uint64_t>(1, (total + most - 1) / most));
  }
  [[nodiscard]] uint64_t first(uint32_t i) const { return i * most; }
  [[nodiscard]] size_t bytes(uint32_t i) const { return std::min(most, total - first(i)); }
};

/// Of each of `blocks` blocks that one page shows, so many bytes.
uint64_t slice_of(int blocks) {
  const uint64_t most = Channel::kPageBytes / static_cast<uint64_t>(blocks);
  return most > 64 ? most & ~uint64_t{63} : most;
}

// A rank that has failed shows nothing, and those that wait for it see that.
void Run::put(uint32_t step, const void* from, size_t n) {
  if (!outcome_.ok()) [[unlikely]]
    n = 0;
  std::byte* room = channel_.claim(step, n);
  p2p::copy_small(room, from, n);
  channel_.show(step, n);
}

Shown Run::take(int rank, uint32_t step, size_t n) {
  const Shown shown = channel_.await(rank, step);
  if (shown.size != n) [[unlikely]]
    note(Error(Errc::truncate, "rank " + std::to_string(rank) + " gave " + std::to_string(shown.size) +
                                   " bytes where " + std::to_string(n) +
                                   " were awaited: make counts and types of both sides agree"));
  return shown;
}

void Run::get(int rank, uint32_t step, void* to, size_t n) {
  const Shown shown = take(rank, step, n);
  if (outcome_.ok()) [[likely]]
    p2p::copy_small(to, shown.data, n);
}

/// What a rank shows of data that others read in its memory.
struct Address {
  uint64_t address, failed;
};

void Run::put_address(uint32_t step, const void* address) {
  const Address shown{reinterpret_cast<uint64_t>(address), outcome_.ok() ? 0u : 1u};
  std::memcpy(channel_.claim(step, sizeof shown), &shown, sizeof shown);
  channel_.show(step, sizeof shown);
}

void Run::get_direct(int rank, uint32_t step, void* to, uint64_t offset, size_t n) {
  Address shown;
  std::memcpy(&shown, channel_.await(rank, step).data, sizeof shown);
  if (shown.failed != 0)
    note(Error(Errc::truncate, "rank " + std::to_string(rank) + " has nothing to give, it failed before"));
  if (outcome_.ok()) note(channel_.get(rank, to, shown.address + offset, n));
}

/// Everybody shows and reads everybody's, some steps ahead.
template <class Write, class Read>
void Run::exchange(uint32_t steps, Write&& write, Read&& read) {
  const uint32_t first = channel_.begin(steps);
  for (uint32_t group = 0; group < steps; group += Channel::kAhead) {
    const uint32_t end = std::min(steps, group + Channel::kAhead);
    for (uint32_t i = group; i < end; ++i) write(first + i, i);
    for (uint32_t i = group; i < end; ++i) read(first + i, i);
    channel_.met(first + end - 1);
  }
}

void Run::barrier() {
  exchange(
      1, [&](uint32_t step, uint32_t) { channel_.show(step, 0); },
      [&](uint32_t step, uint32_t) {
        others([&](int rank) { static_cast<void>(channel_.await(rank, step)); });
      });
}

void Run::bcast() {
  Stream data;
  open(data, call_.recv.whole(), root());
  if (direct()) {
    const uint32_t step = channel_.begin(1);
    if (root()) {
      put_address(step, data.data());
      channel_.await_done(step);
    } else {
      get_direct(call_.root, step, data.data(), 0, call_.bytes);
      close(data);
    }
    return channel_.done(step);
  }
  const Slices slices{call_.bytes, Channel::kPageBytes};
  const uint32_t first = channel_.begin(slices.steps());
  for (uint32_t i = 0; i < slices.steps(); ++i) {
    std::byte* at = data.data() + slices.first(i);
    root() ? put(first + i, at, slices.bytes(i)) : get(call_.root, first + i, at, slices.bytes(i));
    channel_.done(first + i);
  }
  if (!root()) close(data);
}

/// The root reads the terms from the last rank's to the first's, as many bytes at a time as half its pages
/// hold.
void Run::reduce_direct() {
  constexpr size_t kHalf = Channel::kAhead * Channel::kPageBytes;
  const uint32_t step = channel_.begin(1);
  if (!root()) {
    put_address(step, call_.send.address);
    channel_.await_done(call_.root, step);
    return channel_.done(step);
  }
  others([&](int rank) { static_cast<void>(channel_.await(rank, step)); });
  channel_.met(step);
  std::byte* term = channel_.pages();
  const Slices slices{call_.bytes, kHalf};
  for (uint32_t i = 0; i < slices.steps(); ++i) {
    const size_t n = slices.bytes(i), at = slices.first(i);
    std::byte* result = static_cast<std::byte*>(call_.recv.address) + at;
    std::byte* target = call_.in_place ? term + kHalf : result;
    for (int rank = call_.size - 1; rank >= 0; --rank) {
      const bool first = rank == call_.size - 1;
      std::byte* own = static_cast<std::byte*>(call_.send.address) + at;
      if (rank != call_.rank) get_direct(rank, step, first ? target : term, at, n);
      if (!outcome_.ok()) continue;
      if (first && rank == call_.rank) std::memcpy(target, own, n);
      if (!first) fold(rank == call_.rank ? own : term, target, static_cast<int64_t>(n / element()));
    }
    if (call_.in_place && outcome_.ok()) std::memcpy(result, target, n);
  }
  channel_.done(step);
}

// Terms are combined from the last rank's to the first's.
void Run::reduce() {
  if (direct()) return reduce_direct();
  const auto* mine = static_cast<const std::byte*>(call_.send.address);
  const Slices slices{call_.bytes, Channel::kPageBytes};
  const uint32_t first = channel_.begin(slices.steps());
  for (uint32_t i = 0; i < slices.steps(); ++i) {
    const uint32_t step = first + i;
    const size_t n = slices.bytes(i), at = slices.first(i);
    if (!root()) {
      put(step, mine + at, n);
      channel_.done(step);
      continue;
    }
    std::byte* result = static_cast<std::byte*>(call_.recv.address) + at;
    std::byte* target = call_.in_place ? channel_.claim(step, n) : result;
    for (int rank = call_.size - 1; rank >= 0; --rank) {
      const std::byte* term = rank == call_.rank ? mine + at : take(rank, step, n).data;
      if (!outcome_.ok()) continue;
      rank == call_.size - 1 ? p2p::copy_small(target, term, n)
                             : fold(term, target, static_cast<int64_t>(n / element()));
    }
    if (call_.in_place && outcome_.ok()) p2p::copy_small(result, target, n);
    channel_.done(step);
  }
}

void Run::allreduce_all() {
  const size_t n = call_.bytes;
  auto* result = static_cast<std::byte*>(call_.recv.address);
  exchange(
      1, [&](uint32_t step, uint32_t) { put(step, call_.send.address, n); },
      [&](uint32_t step, uint32_t) {
        for (int rank = call_.size - 1; rank >= 0; --rank) {
          const Shown term = take(rank, step, n);
          if (!outcome_.ok()) continue;
          rank == call_.size - 1 ? p2p::copy_small(result, term.data, n)
                                 : fold(term.data, result, call_.send.count);
        }
      });
}

void Run::allreduce_parts() {
  const int64_t page = static_cast<int64_t>(Channel::kPageBytes / element()), count = call_.send.count;
  const int64_t group = page * Channel::kAhead;
  for (int64_t first = 0; first < count; first += group) {
    const int64_t n = std::min(group, count - first);
    allreduce_group(first, n, static_cast<uint32_t>((n + page - 1) / page));
  }
}

// A page at a time: the inputs are shown, but for the own part; each rank shows its part of the result.
void Run::allreduce_group(int64_t first, int64_t n, uint32_t pages) {
  const size_t size = element();
  const int64_t page = static_cast<int64_t>(Channel::kPageBytes / size);
  const auto* mine = static_cast<const std::byte*>(call_.send.address);
  auto* result = static_cast<std::byte*>(call_.recv.address);
  const auto elements = [&](uint32_t i) { return std::min(page, n - i * page); };
  const auto place_of = [&](uint32_t i) { return static_cast<size_t>(first + i * page) * size; };
  const auto part = [&](uint32_t i, int rank) { return Part(elements(i), call_.size, rank); };
  const uint32_t inputs = channel_.begin(2 * pages), results = inputs + pages;

  for (uint32_t i = 0; i < pages; ++i) {
    const size_t all = static_cast<size_t>(elements(i)) * size;
    const Part own = part(i, call_.rank);
    const size_t from = static_cast<size_t>(own.first) * size,
                 to = from + static_cast<size_t>(own.count) * size;
    std::byte* room = channel_.claim(inputs + i, all);
    std::memcpy(room, mine + place_of(i), from);
    std::memcpy(room + to, mine + place_of(i) + to, all - to);
    channel_.show(inputs + i, all);
  }
  for (uint32_t i = 0; i < pages; ++i) {
    const size_t all = static_cast<size_t>(elements(i)) * size;
    const Part own = part(i, call_.rank);
    const size_t at = static_cast<size_t>(own.first) * size, bytes = static_cast<size_t>(own.count) * size;
    others([&](int rank) { static_cast<void>(take(rank, inputs + i, all)); });
    channel_.met(inputs + i);
    const size_t shown = outcome_.ok() ? bytes : 0;
    std::byte* target = channel_.claim(results + i, shown);
    for (int rank = call_.size - 1; rank >= 0 && shown != 0; --rank) {
      const std::byte* term =
          rank == call_.rank ? mine + place_of(i) + at : channel_.await(rank, inputs + i).data + at;
      rank == call_.size - 1 ? p2p::copy_small(target, term, bytes) : fold(term, target, own.count);
    }
    channel_.show(results + i, shown);
  }
  for (uint32_t i = 0; i < pages; ++i)
    for (int rank = 0; rank < call_.size; ++rank) {
      const Part theirs = part(i, rank);
      get(rank, results + i, result + place_of(i) + static_cast<size_t>(theirs.first) * size,
          static_cast<size_t>(theirs.count) * size);
    }
  channel_.met(results + pages - 1);
}

/// The others may read until they are done.
void Run::allgather_direct(std::byte* in, const std::byte* mine) {
  const uint32_t step = channel_.begin(1);
  put_address(step, mine);
  others([&](int peer) {
    get_direct(peer, step, in + static_cast<size_t>(peer) * call_.bytes, 0, call_.bytes);
  });
  channel_.done(step);
  channel_.await_done(step);
}

void Run::alltoall_direct(std::byte* in, const std::byte* blocks) {
  const uint32_t step = channel_.begin(1);
  put_address(step, blocks);
  others([&](int peer) {
    get_direct(peer, step, in + static_cast<size_t>(peer) * call_.bytes,
               static_cast<uint64_t>(call_.rank) * call_.bytes, call_.bytes);
  });
  channel_.done(step);
  channel_.await_done(step);
}

void Run::allgather() {
  const size_t block = call_.bytes;
  const auto rank = static_cast<size_t>(call_.rank);
  Stream in, out;
  open(in, call_.recv.part(0, call_.size * call_.recv.count), call_.in_place);
  std::byte* own = in.data() + rank * block;
  const std::byte* mine = own;
  if (!call_.in_place) {
    open(out, call_.send.whole(), true);
    mine = out.data();
    if (out.bytes() != block)
      note(Error(Errc::truncate,
                 "the block of this rank itself does not fit its place: make counts and types agree"));
    if (outcome_.ok()) p2p::copy_small(own, mine, block);
  }
  if (direct()) {
    allgather_direct(in.data(), mine);
    return close(in);
  }
  const Slices slices{block, Channel::kPageBytes};
  exchange(
      slices.steps(), [&](uint32_t step, uint32_t i) { put(step, mine + slices.first(i), slices.bytes(i)); },
      [&](uint32_t step, uint32_t i) {
        others([&](int peer) {
          get(peer, step, in.data() + static_cast<size_t>(peer) * block + slices.first(i), slices.bytes(i));
        });
      });
  close(in);
}

/// Shows bytes [first, first + n) of all blocks but the own.
void Run::write_blocks(uint32_t step, const std::byte* blocks, uint64_t first, uint64_t n) {
  const size_t shown = outcome_.ok() ? n * static_cast<size_t>(call_.size - 1) : 0;
  std::byte* room = channel_.claim(step, shown);
  if (shown != 0)
    others([&](int rank) {
      p2p::copy_small(room + place(rank, call_.rank) * n,
                      blocks + static_cast<uint64_t>(rank) * call_.bytes + first, n);
    });
  channel_.show(step, shown);
}

void Run::alltoall() {
  const uint64_t block = call_.bytes;
  const auto own = static_cast<uint64_t>(call_.rank) * block;
  Stream in, out;
  open(in, call_.recv.part(0, call_.size * call_.recv.count), call_.in_place);
  const std::byte* blocks = in.data();
  if (!call_.in_place) {
    open(out, call_.send.part(0, call_.size * call_.send.count), true);
    blocks = out.data();
    if (out.bytes() != in.bytes())
      note(Error(Errc::truncate, "the blocks sent and received differ in size: make counts and types agree"));
    if (outcome_.ok()) p2p::copy_small(in.data() + own, blocks + own, block);
  }
  if (direct() && !call_.in_place) {
    alltoall_direct(in.data(), blocks);
    return close(in);
  }
  const Slices slices{block, slice_of(call_.size - 1)};
  exchange(
      slices.steps(),
      [&](uint32_t step, uint32_t i) { write_blocks(step, blocks, slices.first(i), slices.bytes(i)); },
      [&](uint32_t step, uint32_t i) {
        const size_t n = slices.bytes(i);
        others([&](int peer) {
          const Shown shown = take(peer, step, n * static_cast<size_t>(call_.size - 1));
          if (outcome_.ok())
            p2p::copy_small(in.data() + static_cast<uint64_t>(peer) * block + slices.first(i),
                            shown.data + place(call_.rank, peer) * n, n);
        });
      });
  close(in);
}

void Run::gather() {
  const uint64_t block = call_.bytes;
  const auto rank = static_cast<uint64_t>(call_.rank);
  Stream in, out;
  if (root()) open(in, call_.recv.part(0, call_.size * call_.recv.count), call_.in_place);
  if (!root() || !call_.in_place) open(out, call_.send.whole(), true);
  if (root() && !call_.in_place) {
    if (out.bytes() != block)
      note(Error(Errc::truncate,
                 "the block of the root itself does not fit its place: make counts and types agree"));
    if (outcome_.ok()) p2p::copy_small(in.data() + rank * block, out.data(), block);
  }
  if (direct()) {
    const uint32_t step = channel_.begin(1);
    if (root()) {
      others([&](int peer) {
        get_direct(peer, step, in.data() + static_cast<uint64_t>(peer) * block, 0, block);
      });
      close(in);
    } else {
      put_address(step, out.data());
      channel_.await_done(call_.root, step);
    }
    return channel_.done(step);
  }
  const Slices slices{block, Channel::kPageBytes};
  const uint32_t first = channel_.begin(slices.steps());
  for (uint32_t i = 0; i < slices.steps(); ++i) {
    const size_t n = slices.bytes(i);
    if (root())
      others([&](int peer) {
        get(peer, first + i, in.data() + static_cast<uint64_t>(peer) * block + slices.first(i), n);
      });
    else
      put(first + i, out.data() + slices.first(i), n);
    channel_.done(first + i);
  }
  if (root()) close(in);
}

void Run::scatter() {
  const uint64_t block = call_.bytes;
  Stream in, out;
  if (root()) open(out, call_.send.part(0, call_.size * call_.send.count), true);
  if (!root() || !call_.in_place) open(in, call_.recv.whole(), false);
  if (root() && !call_.in_place) {
    if (in.bytes() != block)
      note(Error(Errc::truncate,
                 "the block of the root itself does not fit its place: make counts and types agree"));
    if (outcome_.ok())
      p2p::copy_small(in.data(), out.data() + static_cast<uint64_t>(call_.rank) * block, block);
  }
  if (direct()) {
    const uint32_t step = channel_.begin(1);
    if (root()) {
      put_address(step, out.data());
      channel_.await_done(step);
    } else {
      get_direct(call_.root, step, in.data(), static_cast<uint64_t>(call_.rank) * block, block);
    }
    close(in);
    return channel_.done(step);
  }
  const Slices slices{block, slice_of(call_.size - 1)};
  const uint32_t first = channel_.begin(slices.steps());
  for (uint32_t i = 0; i < slices.steps(); ++i) {
    const size_t n = slices.bytes(i);
    if (root()) {
      write_blocks(first + i, out.data(), slices.first(i), n);
    } else {
      const Shown shown = take(call_.root, first + i, n * static_cast<size_t>(call_.size - 1));
      if (outcome_.ok())
        p2p::copy_small(in.data() + slices.first(i), shown.data + place(call_.rank, call_.root) * n, n);
    }
    channel_.done(first + i);
  }
  close(in);
}

Status Run::operator()() {
  switch (call_.what) {
    case Collective::barrier:
      barrier();
      break;
    case Collective::bcast:
      bcast();
      break;
    case Collective::reduce:
      reduce();
      break;
    case Collective::allreduce:
      call_.bytes* static_cast<uint64_t>(call_.size) <= kReduceAll ? allreduce_all() : allreduce_parts();
      break;
    case Collective::allgather:
      allgather();
      break;
    case Collective::alltoall:
      alltoall();
      break;
    case Collective::gather:
      gather();
      break;
    default:
      scatter();
  }
  return std::move(outcome_);
}

/// Whether a call is of the kind that is done here; sees only what is equal on all ranks.
bool suits(const Call& call) {
  if (call.size < 2 || call.inter() || call.bytes > max_bytes) return false;
  switch (call.what) {
    case Collective::barrier:
    case Collective::bcast:
      return true;
    case Collective::reduce:
    case Collective::allreduce:
      return !call.op->user && call.recv.type->contiguous();
    case Collective::gather:
    case Collective::scatter:
    case Collective::allgather:
    case Collective::alltoall:
      return call.bytes * static_cast<uint64_t>(call.size) <= max_total;
    default:
      return false;
  }
}

/// What a communicator keeps: a count, then a channel.
struct State final : core::CollectiveState {
  explicit State(core::Communicator& comm) : channel(comm), domain(comm) {}
  Channel channel;
  gpu::Domain domain;
  uint32_t calls = 0;
  bool settled = false;  // the channel is open, or never will be
};

/// Where operands may be in GPU memory all ranks say where theirs are.
Way way_among_gpus(const Call& call, bool here, State& state, Status& failed) {
  const gpu::Agreement agreed = gpu::agree(call, state.channel, state.domain);
  if (agreed.way == gpu::Way::host) return {here ? &state.channel : nullptr};
  if (agreed.way == gpu::Way::messages) return {};
  if (state.domain.state() == gpu::Domain::State::unknown) failed = state.domain.connect(agreed.memory);
  if (state.domain.state() != gpu::Domain::State::open) return {};
  return {&state.channel, &state.domain, agreed.largest};
}

}  // namespace

Way way_for(const Call& call, Status& failed) {
  const bool here = suits(call);
  if ((!here && !gpu::suits(call)) || enabled.index() != 0 || select::forced(call.what)) return {};
  core::Communicator& comm = *call.comm;
  auto* state = static_cast<State*>(comm.collective.get());
  if (state == nullptr) [[unlikely]] {
    if (comm.instance.shm == nullptr || static_cast<size_t>(call.size) > max_ranks) return {};
    state = new State(comm);
    comm.collective.reset(state);
  }
  if (!state->settled) [[unlikely]] {
    if (state->calls++ < after) return {};
    state->settled = true;
    failed = state->channel.connect();
  }
  Channel& channel = state->channel;
  if (!channel.open()) return {};
  if (!channel.mixed() || call.what == Collective::barrier) return {here ? &channel : nullptr};
  return way_among_gpus(call, here, *state, failed);
}

Status run(const Call& call, Channel& channel) { return Run(call, channel)(); }

}  // namespace weft::coll::shared
