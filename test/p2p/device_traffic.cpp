// SPDX-License-Identifier: BSD-3-Clause
// Random messages between buffers of every kind: windows, wildcards, several communicators, every mode;
// checks every byte and for leaks. Usage: device_traffic seed rounds [seconds]
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "../reference/draw.hpp"
#include "device/mpi_main.hpp"

namespace {

using randomized::Draw;
using randomized::mix;
using weft::test::Buffer;
using weft::test::cuda;
using Kind = Buffer::Kind;

constexpr int kKinds = 7;
constexpr size_t kGuard = 64;           // guard bytes behind a message
constexpr size_t kArena = 8 << 20;      // bytes of a long-lived buffer
constexpr int kBlock = 48, kStep = 80;  // of a strided side, in bytes
constexpr char kUntouched = 0x55;

int rank = 0, ranks = 0, failures = 0;

/// One message, known to all ranks.
struct PlannedMessage {
  int index, source, destination, comm;
  size_t size;
  uint64_t seed;  // of its content and of decisions of one side
};

/// Buffers and pairs of a round's messages.
enum class Theme { any, devices, burst };  // all kinds; GPU memory of the rank; the same, small, one pair

/// How one side sends or receives a message.
struct Side {
  Kind kind;
  int device;
  bool arena, strided;
  int mode;
  size_t offset;
};

size_t draw_size(Draw& draw) {
  const int most = draw.of({3, 7, 13, 17, 19, 22});
  const size_t size = draw.number() % ((size_t{1} << most) + 1);
  if (draw.one_in(12)) return 0;
  if (draw.one_in(4)) return size_t{1} << most;
  return draw.one_in(4) ? size / kBlock * kBlock : size;  // multiples of kBlock can be strided
}

Side side_of(const PlannedMessage& m, int which, Theme theme, int devices) {
  const auto pick = [&](int what, int below) { return mix(m.seed, which, what, below); };
  Side side{};
  if (theme == Theme::any) {
    side.kind = static_cast<Kind>(pick(0, kKinds));
    side.device = pick(1, devices);
  } else {
    side.kind = pick(0, 8) == 0 ? Kind::pool : Kind::device;
    side.device = (which == 0 ? m.source : m.destination) % devices;
  }
  side.arena = pick(2, 2) == 0;
  side.strided = m.size != 0 && m.size % kBlock == 0 && pick(3, 2) == 0;
  side.mode = pick(4, 4);
  side.offset = static_cast<size_t>(pick(5, 4) == 0 ? pick(6, 300) : pick(6, 4) * 16);
  return side;
}

std::vector<char> content(const PlannedMessage& m) {
  std::vector<char> bytes(m.size);
  uint64_t x = m.seed | 1;
  for (char& byte : bytes) {
    x = x * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<char>(x >> 56);
  }
  return bytes;
}

size_t extent(const PlannedMessage& m, const Side& side) {
  return side.strided ? m.size / kBlock * kStep : m.size;
}

/// The message's bytes in buffer layout; gaps and guard are unchanged.
std::vector<char> lay_out(const PlannedMessage& m, const Side& side) {
  std::vector<char> memory(extent(m, side) + kGuard, kUntouched);
  const auto bytes = content(m);
  if (!side.strided) std::copy(bytes.begin(), bytes.end(), memory.begin());
  for (size_t at = 0, to = 0; side.strided && at < m.size; at += kBlock, to += kStep)
    std::copy_n(bytes.begin() + static_cast<long>(at), kBlock, memory.begin() + static_cast<long>(to));
  return memory;
}

/// Long-lived buffers, one per kind and device, divided among messages.
class Arenas {
 public:
  explicit Arenas(int devices) {
    for (int device = 0; device < devices; ++device)
      for (int kind = 0; kind < kKinds; ++kind)
        arenas_.push_back({std::make_unique<Buffer>(static_cast<Kind>(kind), kArena, device), 0});
  }
  void reset() {
    for (Arena& arena : arenas_) arena.used = 0;
  }
  /// Returns null when the buffer is exhausted.
  Buffer* take(const Side& side, size_t n, size_t& at) {
    Arena& arena = arenas_[static_cast<size_t>(side.device) * kKinds + static_cast<size_t>(side.kind)];
    if (arena.used + side.offset + n > kArena) return nullptr;
    at = arena.used + side.offset;
    arena.used = at + n;
    return arena.buffer.get();
  }

 private:
  struct Arena {
    std::unique_ptr<Buffer> buffer;
    size_t used;
  };
  std::vector<Arena> arenas_;
};

/// The buffer of one side of a message.
struct Slot {
  std::unique_ptr<Buffer> own;
  Buffer* buffer = nullptr;
  size_t at = 0;
  [[nodiscard]] char* data() const { return buffer->data() + at; }
};

Slot find_place(Arenas& arenas, const Side& side, size_t n) {
  Slot slot;
  if (side.arena) slot.buffer = arenas.take(side, n, slot.at);
  if (slot.buffer != nullptr) return slot;
  slot.own = std::make_unique<Buffer>(side.kind, n + side.offset, side.device);
  slot.buffer = slot.own.get();
  slot.at = side.offset;
  return slot;
}

/// The datatype and count of one side.
struct Layout {
  MPI_Datatype type = MPI_BYTE;
  int count;
  Layout(const PlannedMessage& m, const Side& side) : count(static_cast<int>(m.size)) {
    if (!side.strided) return;
    MPI_Type_vector(count / kBlock, kBlock, kStep, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    count = 1;
  }
  ~Layout() {
    if (type != MPI_BYTE) MPI_Type_free(&type);
  }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
};

struct Receive {
  PlannedMessage posted;  // the expected message; for a wildcard the received one
  Side side;
  Slot slot;
};

class Traffic {
 public:
  Traffic(uint64_t seed, int devices) : draw_(seed), devices_(devices), arenas_(devices) {
    comms_[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms_[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms_[2]);
  }
  ~Traffic() {
    MPI_Comm_free(&comms_[1]);
    MPI_Comm_free(&comms_[2]);
  }
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  void round(int number) {
    number_ = number;
    const bool wild = draw_.one_in(4);
    draw_messages();
    arenas_.reset();
    if (wild) MPI_Barrier(MPI_COMM_WORLD);
    const bool late = mix(draw_.number(), rank, 0, 3) == 0;
    if (!late) post_receives(wild);
    post_sends();
    if (late) post_receives(wild);
    complete();
    for (size_t i = 0; i < receives_.size(); ++i) check(i, wild);
    if (wild) MPI_Barrier(MPI_COMM_WORLD);
    receives_.clear();
    sends_.clear();
  }

 private:
  [[nodiscard]] int in_comm(int world_rank, int comm) const {
    return comm == 2 ? ranks - 1 - world_rank : world_rank;
  }

  void draw_messages() {
    messages_.clear();
    theme_ = draw_.of({Theme::any, Theme::any, Theme::devices, Theme::burst});
    const int count = theme_ == Theme::burst ? 60 : draw_.of({1, 4, 12, 30});
    const int pair[] = {draw_.below(ranks), draw_.below(ranks)};
    size_t budget = 12 << 20;
    for (int i = 0; i < count; ++i) {
      PlannedMessage m{
          i, draw_.below(ranks), draw_.below(ranks), draw_.below(3), draw_size(draw_), draw_.number()};
      if (theme_ == Theme::burst) {
        m.source = pair[i % 2];
        m.destination = pair[1 - i % 2];
        m.size %= 8192;
      }
      if (m.size > budget) m.size %= 4096;
      budget -= m.size;
      messages_.push_back(m);
    }
  }

  [[nodiscard]] int tag(const PlannedMessage& m) const { return number_ % 100 * 64 + m.index; }

  void post_sends() {
    for (const PlannedMessage& m : messages_) {
      if (m.source != rank) continue;
      const Side side = side_of(m, 0, theme_, devices_);
      const auto memory = lay_out(m, side);
      sends_.push_back(find_place(arenas_, side, memory.size()));
      Slot& slot = sends_.back();
      slot.buffer->write(memory, slot.at);
      const Layout described(m, side);
      MPI_Request& request = requests_.emplace_back();
      const int to = in_comm(m.destination, m.comm);
      if (side.mode == 0) {
        MPI_Issend(slot.data(), described.count, described.type, to, tag(m), comms_[m.comm], &request);
      } else if (side.mode == 1) {
        MPI_Send_init(slot.data(), described.count, described.type, to, tag(m), comms_[m.comm], &request);
        MPI_Start(&request);
      } else {
        MPI_Isend(slot.data(), described.count, described.type, to, tag(m), comms_[m.comm], &request);
      }
    }
  }

  /// Capacity of a receive: a wildcard accepts the largest message of its communicator.
  [[nodiscard]] size_t capacity(const PlannedMessage& m, bool wild) const {
    size_t most = m.size;
    for (const PlannedMessage& other : messages_)
      if (wild && other.destination == rank && other.comm == m.comm) most = std::max(most, other.size);
    return most;
  }

  void post_receives(bool wild) {
    for (const PlannedMessage& m : messages_) {
      if (m.destination != rank) continue;
      Side side = side_of(m, 1, theme_, devices_);
      PlannedMessage posted = m;
      posted.size = capacity(m, wild);
      if (wild) side.strided = false;
      const size_t bytes = extent(posted, side) + kGuard;
      receives_.push_back({m, side, find_place(arenas_, side, bytes)});
      Slot& slot = receives_.back().slot;
      slot.buffer->write(std::vector<char>(bytes, kUntouched), slot.at);
      const Layout described(posted, side);
      const int from = wild ? MPI_ANY_SOURCE : in_comm(m.source, m.comm);
      const int with = wild ? MPI_ANY_TAG : tag(m);
      MPI_Request& request = requests_.emplace_back();
      if (side.mode == 0) {
        MPI_Recv_init(slot.data(), described.count, described.type, from, with, comms_[m.comm], &request);
        MPI_Start(&request);
      } else {
        MPI_Irecv(slot.data(), described.count, described.type, from, with, comms_[m.comm], &request);
      }
      receive_of_.resize(requests_.size(), -1);
      receive_of_.back() = static_cast<int>(receives_.size()) - 1;
    }
  }

  void complete() {
    receive_of_.resize(requests_.size(), -1);
    statuses_.assign(receives_.size(), MPI_Status{});
    for (size_t left = requests_.size(); left != 0; --left) {
      int index = -1;
      MPI_Status status;
      MPI_Waitany(static_cast<int>(requests_.size()), requests_.data(), &index, &status);
      if (index == MPI_UNDEFINED) break;
      const auto at = static_cast<size_t>(index);
      if (receive_of_[at] >= 0) statuses_[static_cast<size_t>(receive_of_[at])] = status;
      // Inactive persistent requests in the list are freed, so that Waitany ignores them.
      if (requests_[at] != MPI_REQUEST_NULL) MPI_Request_free(&requests_[at]);
    }
    requests_.clear();
    receive_of_.clear();
  }

  void fail(const PlannedMessage& m, const std::string& what) {
    if (++failures > 10) return;
    std::fprintf(stderr, "rank %d round %d: %s: message %d from %d to %d, %zu bytes\n", rank, number_,
                 what.c_str(), m.index, m.source, m.destination, m.size);
  }

  void check(size_t i, bool wild) {
    Receive& receive = receives_[i];
    const MPI_Status& status = statuses_[i];
    const int index = status.MPI_TAG - number_ % 100 * 64;
    if (index < 0 || index >= static_cast<int>(messages_.size()))
      return fail(receive.posted, "unexpected tag");
    const PlannedMessage& m = messages_[static_cast<size_t>(index)];
    MPI_Count count = 0;
    MPI_Get_elements_c(&status, MPI_BYTE, &count);
    if (m.destination != rank || m.comm != receive.posted.comm ||
        status.MPI_SOURCE != in_comm(m.source, m.comm) || static_cast<size_t>(count) != m.size ||
        (!wild && m.index != receive.posted.index))
      return fail(m, "wrong status");
    const auto expected = lay_out(m, receive.side);
    const auto got = receive.slot.buffer->read(receive.slot.at, expected.size());
    if (got == expected) return;
    const auto first = std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin();
    const auto after = std::mismatch(got.rbegin(), got.rend(), expected.rbegin()).first;
    const auto last = got.rend() - after - 1;
    const auto untouched = std::count(got.begin() + first, got.begin() + last + 1, kUntouched);
    const Side sent = side_of(m, 0, theme_, devices_);
    fail(m, "wrong bytes from " + std::to_string(first) + " to " + std::to_string(last) + " (" +
                std::to_string(untouched) + " untouched), kind " + weft::test::name(sent.kind) +
                (sent.strided ? " strided" : "") + " to " + weft::test::name(receive.side.kind) +
                (receive.side.strided ? " strided" : "") + " of GPUs " + std::to_string(sent.device) +
                " and " + std::to_string(receive.side.device));
  }

  Draw draw_;
  int devices_, number_ = 0;
  Theme theme_ = Theme::any;
  Arenas arenas_;
  MPI_Comm comms_[3];
  std::vector<PlannedMessage> messages_;
  std::vector<Slot> sends_;
  std::vector<Receive> receives_;
  std::vector<MPI_Request> requests_;
  std::vector<int> receive_of_;  // receive of a request; -1: the request is a send
  std::vector<MPI_Status> statuses_;
};

/// Returns whether another round is due, the same on all ranks.
bool another_round(int round, int rounds, double until) {
  if (until == 0) return round < rounds;
  if (round % 10 != 0) return true;
  int more = MPI_Wtime() < until ? 1 : 0;
  MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return more != 0;
}

void report(int round, uint64_t seed) {
  if (rank != 0) return;
  std::printf("%d rounds, seed %llu", round, static_cast<unsigned long long>(seed));
  if (cuda().emulated()) {
    unsigned long longest = 0;
    const unsigned long waits = cuda().resident_kernel_waits(1, &longest);
    std::printf(
        ": %lu launches, %lu lists, %lu resident kernel commands, %lu waits for the resident kernel by Weft "
        "(longest %lu us)",
        cuda().calls("cuLaunchKernel"), cuda().batch_copies(), cuda().resident_kernel_commands(), waits,
        longest / 1000);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 40;
  const double seconds = argc > 3 ? std::atof(argv[3]) : 0;
  weft::test::start(argc, argv, rank, ranks);
  const double until = seconds > 0 ? MPI_Wtime() + seconds : 0;
  int round = 0;
  {
    Traffic traffic(seed, cuda().devices);
    for (; another_round(round, rounds, until); ++round) traffic.round(round);
  }
  const int code = weft::test::finish(failures);
  report(round, seed);
  if (cuda().emulated() && cuda().live() != 0) {
    std::fprintf(stderr, "rank %d: %lu allocations are left\n", rank, cuda().live());
    return 1;
  }
  return code;
}
