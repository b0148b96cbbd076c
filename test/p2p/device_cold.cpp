// SPDX-License-Identifier: BSD-3-Clause
// The first messages from GPU memory, on a driver where opening a mapping takes 1 ms (ADR 0052): a pair opens
// one bounce buffer in each direction, memory of the program is mapped once the messages have cost as much,
// by size, and memory that comes and goes never is. MPI_Init opens the bounce buffers if each rank has a
// context on a GPU of its own (ADR 0064). Usage: device_cold auto|one_side|always
//   device_cold init PEERS GPU...: the ranks have contexts on these GPUs in MPI_Init (-: none), where each
//   that has one connects with PEERS others; x behind a GPU: the bounce buffer of that rank cannot be
//   allocated
#include <mpi.h>
#include <weft.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "device/mpi_main.hpp"

namespace {

using weft::test::Buffer;
using weft::test::cuda;

constexpr size_t kSmall = 64 << 10, kLarge = 16 << 20;
constexpr uint64_t kOpenNs = 1'000'000;  // EMUCUDA_IPC_OPEN_US
constexpr uint64_t kLeastExtraNs =
    9000;  // of a message through a bounce buffer (p2p/protocol/device/bounce.cpp)
constexpr uint64_t kPutGainNs = 1400, kPutBounceExtraNs = 6000;  // p2p/protocol/device/put.cpp
// On a busy machine an open takes longer than it should.
constexpr uint64_t kMostMessages = 3000;

int rank = 0, failures = 0;

/// Value of a counter of the library in this process.
uint64_t counter(const std::string& name) {
  static char text[1 << 17];
  MPIX_Counters(text, sizeof text, nullptr);
  const char* const line = std::strstr(text, (name + "\t").c_str());
  if (line != nullptr) return std::strtoull(line + name.size() + 1, nullptr, 10);
  std::fprintf(stderr, "no counter %s\n", name.c_str());
  std::exit(1);
}

/// Growth of a counter since the construction of the object.
class Counted {
 public:
  explicit Counted(const char* name) : name_(name), before_(counter(name)) {}
  [[nodiscard]] uint64_t growth() const { return counter(name_) - before_; }

 private:
  const char* name_;
  uint64_t before_;
};

void expect(bool holds, const char* what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "rank %d: %s\n", rank, what);
}

Buffer allocate(size_t bytes) { return Buffer(Buffer::Kind::device, bytes, rank % cuda().devices); }

/// The first call of both ranks: the receive, which is advertised to the sender, or the send, whose receiver
/// reads.
enum class First : uint8_t { receive, send };

/// Both ranks send and receive `bytes` bytes; returns the time in ns.
uint64_t exchange(Buffer& out, Buffer& in, size_t bytes, unsigned seed, First first = First::send) {
  out.write(weft::test::pattern(bytes, seed + static_cast<unsigned>(rank)));
  const int count = static_cast<int>(bytes), other = 1 - rank;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Barrier(MPI_COMM_WORLD);
  const uint64_t begin = weft::monotonic_ns();
  if (first == First::receive) {
    MPI_Irecv(in.data(), count, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(out.data(), count, MPI_BYTE, other, 0, MPI_COMM_WORLD);
  } else {
    MPI_Isend(out.data(), count, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(in.data(), count, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  const uint64_t end = weft::monotonic_ns();
  auto seen = in.read();
  seen.resize(bytes);
  expect(seen == weft::test::pattern(bytes, seed + static_cast<unsigned>(other)), "wrong bytes");
  return end - begin;
}

/// Sends until this rank has mapped the buffer of the other one; returns the number of exchanges.
uint64_t until_mapped(Buffer& out, Buffer& in, size_t bytes, First first = First::send) {
  const Counted opens("gpu.ipc_opens");
  uint64_t number = 0;
  for (int mapped = 0; mapped == 0 && number < kMostMessages; ++number) {
    exchange(out, in, bytes, static_cast<unsigned>(number), first);
    const int own = opens.growth() != 0 ? 1 : 0;
    MPI_Allreduce(&own, &mapped, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  }
  return number;
}

void test_first_exchange() {
  const Counted opens("gpu.ipc_opens"), closes("gpu.ipc_closes"), bounced("p2p.bounce_messages"),
      packed("p2p.eager_pack_messages");
  Buffer out = allocate(kSmall), in = allocate(kSmall);
  const uint64_t first = exchange(out, in, kSmall, 1);
  expect(opens.growth() == 1, "the first exchange opens one bounce buffer");
  expect(closes.growth() == 0, "the first exchange closes nothing");
  expect(first >= kOpenNs, "the emulated driver does not take the time that this test is about");
  const Counted mapping_ns("device.cold_mappings_ns");
  for (unsigned i = 0; i < 19; ++i) exchange(out, in, kSmall, i);
  expect(opens.growth() == 1 && mapping_ns.growth() == 0,
         "twenty exchanges of 64 KiB map no memory of the program");
  expect(bounced.growth() + packed.growth() == 20, "they are read from the bounce buffer");
}

/// A sender that finds an advertised receive puts its message into the receiver's bounce buffer. When that
/// has cost as much as a mapping, it maps the receive buffer, of which it learns only then.
void test_puts() {
  const Counted opens("gpu.ipc_opens"), puts("p2p.puts"), by_bounce("p2p.bounce_puts"),
      packed("p2p.eager_pack_messages");
  Buffer out = allocate(kSmall), in = allocate(kSmall);
  const unsigned long exports = cuda().calls("cuIpcGetMemHandle");
  for (unsigned i = 0; i < 20; ++i) exchange(out, in, kSmall, i, First::receive);
  expect(opens.growth() == 0 && cuda().calls("cuIpcGetMemHandle") == exports,
         "twenty puts map or export memory of the program");
  expect(by_bounce.growth() + packed.growth() == 20, "they go through bounce buffers");
  expect(by_bounce.growth() >= 19, "senders do not find advertised receives");
  uint64_t number = 20 + until_mapped(out, in, kSmall, First::receive);
  const uint64_t cost = counter("gpu.mapping_cost_ns");  // as last compared
  expect((number + 1) * kPutBounceExtraNs >= cost, "puts into memory of the program begin before they pay");
  const Counted late("p2p.bounce_puts"), all("p2p.puts");
  for (unsigned i = 0; i < 20; ++i) exchange(out, in, kSmall, i, First::receive);
  expect(all.growth() == 20 && late.growth() == 0, "mapped receive buffers are not used");
}

/// Memory of the program is mapped when this pays, and no earlier.
void test_mapping_pays() {
  const Counted mapped("p2p.mapped_messages"), puts("p2p.puts");
  Buffer out = allocate(kSmall), in = allocate(kSmall);
  uint64_t cost = counter("gpu.mapping_cost_ns");
  const uint64_t small = until_mapped(out, in, kSmall);
  cost = std::max(cost, counter("gpu.mapping_cost_ns"));
  MPI_Allreduce(MPI_IN_PLACE, &cost, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  expect(small > 20 && small < kMostMessages, "64 KiB are mapped after many messages");
  // The messages before have cost at most a mapping, so the sum is at most twice the best choice.
  expect((small - 1) * kLeastExtraNs <= cost, "messages without a mapping cost more than a mapping");
  for (unsigned i = 0; i < 20; ++i) exchange(out, in, kSmall, i);
  expect(mapped.growth() + puts.growth() >= 20, "mapped memory is used");
  Buffer large_out = allocate(kLarge), large_in = allocate(kLarge);
  const uint64_t large = until_mapped(large_out, large_in, kLarge);
  expect(large < small, "larger messages are mapped after fewer of them");
}

/// With the senders' side mapped, messages in both orders travel by that mapping, whichever came first. The
/// other side's memory is mapped when puts would have saved as much as that takes.
void test_one_side(First first) {
  const Counted opens("gpu.ipc_opens"), declined("p2p.declined_receives");
  Buffer out = allocate(kSmall), in = allocate(kSmall);
  exchange(out, in, kSmall, 1, first);
  until_mapped(out, in, kSmall);
  const Counted puts("p2p.puts");
  const uint64_t mapped = opens.growth();
  for (unsigned i = 0; i < 20; ++i) exchange(out, in, kSmall, i, i % 2 == 0 ? First::receive : First::send);
  expect(opens.growth() == mapped && puts.growth() == 0, "a put maps the other side's memory, too");
  expect(declined.growth() != 0, "a sender finds advertised receives");
  uint64_t number = 0;
  for (int put = 0; put == 0 && number < kMostMessages; ++number) {
    exchange(out, in, kSmall, static_cast<unsigned>(number), First::receive);
    const int own = puts.growth() != 0 ? 1 : 0;
    MPI_Allreduce(&own, &put, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  }
  expect(number < kMostMessages, "puts never begin");
  const uint64_t cost = counter("gpu.mapping_cost_ns");  // as last compared
  expect((declined.growth() + 1) * kPutGainNs >= cost, "puts begin before they pay");
  expect(opens.growth() == mapped + 1, "each side maps the memory of the other once");
}

/// A large message goes through the bounce buffers in pieces, more than these hold at a time.
void test_pieces() {
  const Counted opens("gpu.ipc_opens"), bounced("p2p.bounce_messages"), bytes("p2p.bounce_bytes");
  uint64_t sum = 0;
  for (const size_t size : {2 * kLarge + 1, kLarge, kLarge - 1}) {
    Buffer out = allocate(size), in = allocate(size);
    exchange(out, in, size, 1);
    sum += size;
  }
  expect(opens.growth() == 0 && bounced.growth() == 3 && bytes.growth() == sum,
         "the first large messages are not read from the bounce buffers");
}

/// A program that allocates in each step takes the bounce buffer, and its memory is not kept.
void test_fresh_allocations() {
  constexpr unsigned kSteps = 60;
  const Counted opens("gpu.ipc_opens"), mapping_ns("device.cold_mappings_ns");
  uint64_t live = 0;
  for (unsigned step = 0; step < kSteps; ++step) {
    Buffer out = allocate(kSmall), in = allocate(kSmall);
    exchange(out, in, kSmall, step, step % 2 == 0 ? First::receive : First::send);
    if (step == 0) live = cuda().live_bytes();
    expect(cuda().live_bytes() == live, "memory of earlier steps is kept");
  }
  expect(opens.growth() == 0 && mapping_ns.growth() == 0, "memory of one step is not mapped");
}

/// Selects the GPU of this rank before MPI_Init; false: the rank has none.
bool select_gpu(const char* gpu) {
  auto& driver = cuda();
  if (gpu[0] == '-') return driver.cuCtxSetCurrent(nullptr) != 0;
  driver.cuCtxSetCurrent(driver.primary[static_cast<size_t>(std::atoi(gpu) % driver.devices)]);
  if (gpu[1] == 'x') driver.fail("cuMemAlloc:1:2,cuMemAlloc:1:2");  // with and without a region beside it
  return true;
}

/// The bounce buffers of `peers` other ranks have been mapped by MPI_Init, and its first messages load no
/// kernels and map nothing. Without peers the first messages do so.
void test_connected_by_init(uint64_t peers, int ranks) {
  expect(counter("gpu.ipc_opens") == peers, "MPI_Init maps another number of bounce buffers");
  expect(peers == 0 || counter("device.cold_kernels_ns") != 0, "MPI_Init loads no kernels");
  if (ranks != 2) return;
  const Counted opens("gpu.ipc_opens"), mapping_ns("device.cold_mappings_ns"),
      kernels("device.cold_kernels_ns");
  const Counted closes("gpu.ipc_closes"), bounced("p2p.bounce_messages"), packed("p2p.eager_pack_messages");
  Buffer out = allocate(kSmall), in = allocate(kSmall);
  for (unsigned i = 0; i < 20; ++i) exchange(out, in, kSmall, i);
  expect(opens.growth() == (peers != 0 ? 0 : 1), "first messages map another number of bounce buffers");
  expect((mapping_ns.growth() == 0 && kernels.growth() == 0) == (peers != 0),
         "first messages are cold, or not");
  expect(closes.growth() == 0, "first messages close a mapping");
  expect(bounced.growth() + packed.growth() == 20, "they are read from the bounce buffer");
  // The region of the first communicator lies beside the bounce buffers, which are mapped.
  MPI_Allreduce(out.data(), in.data(), static_cast<int>(kSmall / sizeof(float)), MPI_FLOAT, MPI_SUM,
                MPI_COMM_WORLD);
  expect(opens.growth() == (peers != 0 ? 0 : 1), "the first collective on GPU memory maps something");
}

}  // namespace

int main(int argc, char** argv) {
  int ranks = 0;
  const bool init = argc > 1 && std::strcmp(argv[1], "init") == 0;
  const char* const local = std::getenv("LOCAL_RANK");
  const bool has_gpu =
      init && local != nullptr && std::atoi(local) + 3 < argc && select_gpu(argv[std::atoi(local) + 3]);
  weft::test::start(argc, argv, rank, ranks);
  if (init) {
    test_connected_by_init(has_gpu ? std::strtoull(argv[2], nullptr, 10) : 0, ranks);
  } else if (argc > 1 && std::strcmp(argv[1], "always") == 0) {
    const Counted opens("gpu.ipc_opens"), bounced("p2p.bounce_messages"), packed("p2p.eager_pack_messages");
    Buffer out = allocate(kSmall), in = allocate(kSmall);
    exchange(out, in, kSmall, 1);
    // One rank may move the messages of both directions: by a get and a put.
    uint64_t own = opens.growth(), all = 0;
    MPI_Allreduce(&own, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    expect(all != 0 && bounced.growth() + packed.growth() == 0, "the first message is mapped");
  } else if (argc > 1 && std::strcmp(argv[1], "one_side") == 0) {
    test_one_side(First::send);
    test_one_side(First::receive);
  } else {
    test_first_exchange();
    test_pieces();
    test_puts();
    test_fresh_allocations();
    test_mapping_pays();
  }
  return weft::test::finish(failures);
}
