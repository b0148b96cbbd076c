// SPDX-License-Identifier: BSD-3-Clause
// Puts into advertised receives on device memory: either side may compute while the other one moves the data,
// and matching follows MPI. Usage: device_put seed rounds [seconds [threads]]
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../reference/draw.hpp"
#include "device/mpi_main.hpp"
#include "put_plan.hpp"
#include "shared_word.hpp"

namespace {

using randomized::Draw;
using weft::test::Buffer;
using weft::test::cuda;
using weft::test::Plan;
using weft::test::Word;
using Kind = Buffer::Kind;

int rank = 0, ranks = 0;
std::atomic<int> failures{0};
int batched_sends = 0;  // how often several sends were one submission

void expect(bool ok, const std::string& what) {
  if (!ok && ++failures < 20) std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
}

std::vector<char> content(size_t n, unsigned seed) { return weft::test::pattern(n, seed); }

// The receiver has posted and computes: the send completes, and the data arrive before the receiver's next
// call.
void passive_receiver(Word& word, size_t n, int round, bool persistent) {
  const int device = rank % cuda().devices, count = static_cast<int>(n);
  const auto seed = [&](int turn) { return static_cast<unsigned>(10 * round + turn); };
  Buffer buffer(Kind::device, n, device);
  const int base = 100 * round;
  MPI_Request request = MPI_REQUEST_NULL;
  if (persistent && rank == 0) MPI_Send_init(buffer.data(), count, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
  if (persistent && rank == 1) MPI_Recv_init(buffer.data(), count, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
  for (int turn = 0; turn < 4; ++turn) {
    if (rank == 0) {
      buffer.write(content(n, seed(turn)));
      MPI_Barrier(MPI_COMM_WORLD);
      if (persistent) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      } else {
        MPI_Send(buffer.data(), count, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
      }
      word.set(base + turn + 1);
    } else if (rank == 1) {
      buffer.write(std::vector<char>(n, 0x55));
      if (persistent)
        MPI_Start(&request);
      else
        MPI_Irecv(buffer.data(), count, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
      MPI_Barrier(MPI_COMM_WORLD);
      // The first message exchanges the regions of both allocations.
      if (turn != 0) {
        expect(word.compute_until(base + turn + 1), "the send waits for the receiver's progress");
        expect(buffer.read() == content(n, seed(turn)), "no data before the receiver's next call");
      }
      MPI_Status status;
      MPI_Wait(&request, &status);
      int got = 0;
      MPI_Get_count(&status, MPI_BYTE, &got);
      expect(got == count && status.MPI_SOURCE == 0 && status.MPI_TAG == 1,
             "status of a receive completed by a put");
      expect(buffer.read() == content(n, seed(turn)), "wrong bytes");
    } else {
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  if (persistent && rank < 2) MPI_Request_free(&request);
  MPI_Barrier(MPI_COMM_WORLD);
}

// The opposite case: the sender has posted and computes.
void passive_sender(Word& word, size_t n, int round) {
  const int device = rank % cuda().devices, count = static_cast<int>(n);
  Buffer buffer(Kind::device, n, device);
  if (rank == 0) {
    buffer.write(content(n, static_cast<unsigned>(round)));
    MPI_Request request;
    MPI_Isend(buffer.data(), count, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    expect(word.compute_until(-round), "the receive waits for the sender's progress");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
      MPI_Recv(buffer.data(), count, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      expect(buffer.read() == content(n, static_cast<unsigned>(round)), "wrong bytes");
      word.set(-round);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

// Small messages arrive before their receives are posted, so the advertised receives are not used. Receives
// of large messages are advertised nevertheless.
void late_receives(Word& word, int base, int round) {
  constexpr int kMessages = 12, kBytes = 4000;
  Buffer buffer(Kind::device, kBytes, rank % cuda().devices);
  for (int turn = 0; turn < kMessages; ++turn) {
    const auto sent = content(kBytes, static_cast<unsigned>(base + turn));
    if (rank == 0) {
      buffer.write(sent);
      MPI_Request request;
      MPI_Isend(buffer.data(), kBytes, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &request);
      word.set(base + turn);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
      expect(word.compute_until(base + turn), "MPI_Isend does not return");
      MPI_Recv(buffer.data(), kBytes, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      expect(buffer.read() == sent, "wrong bytes");
    }
  }
  passive_receiver(word, 3'000'000, round, false);
}

// Several back-to-back sends into posted receives form one submission: started together, or in a burst as
// long as the last two. The receiver computes meanwhile.
void batched_puts(Word& word, int& base, bool persistent) {
  constexpr int kCount = 3, kBytes = 300'000, kTurns = 6;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<MPI_Request> requests(kCount);
  for (int i = 0; i < kCount; ++i)
    buffers.push_back(std::make_unique<Buffer>(Kind::device, kBytes, rank % cuda().devices));
  const auto sent = [&](int turn, int i) {
    return content(kBytes, static_cast<unsigned>(base + turn * 7 + i));
  };
  for (int i = 0; persistent && i < kCount; ++i) {
    void* const data = buffers[static_cast<size_t>(i)]->data();
    if (rank == 0)
      MPI_Send_init(data, kBytes, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[static_cast<size_t>(i)]);
    if (rank == 1)
      MPI_Recv_init(data, kBytes, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[static_cast<size_t>(i)]);
  }
  for (int turn = 0; turn < kTurns; ++turn) {
    for (int i = 0; rank < 2 && i < kCount; ++i)
      buffers[static_cast<size_t>(i)]->write(rank == 0 ? sent(turn, i) : std::vector<char>(kBytes, 0x55));
    if (rank == 1 && persistent) MPI_Startall(kCount, requests.data());
    for (int i = 0; rank == 1 && !persistent && i < kCount; ++i)
      MPI_Irecv(buffers[static_cast<size_t>(i)]->data(), kBytes, MPI_BYTE, 0, i, MPI_COMM_WORLD,
                &requests[static_cast<size_t>(i)]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
      const auto batches = [] { return cuda().emulated() ? cuda().calls("cuMemcpyBatchAsync") : 0; };
      const unsigned long before = batches();
      if (persistent) MPI_Startall(kCount, requests.data());
      for (int i = 0; !persistent && i < kCount; ++i)
        MPI_Isend(buffers[static_cast<size_t>(i)]->data(), kBytes, MPI_BYTE, 1, i, MPI_COMM_WORLD,
                  &requests[static_cast<size_t>(i)]);
      const bool all = batches() == before + 1;
      MPI_Waitall(kCount, requests.data(), MPI_STATUSES_IGNORE);
      batched_sends += all && turn != 0 ? 1 : 0;
      word.set(base + turn + 1);
    } else if (rank == 1) {
      if (turn != 0) expect(word.compute_until(base + turn + 1), "sends wait for the receiver's progress");
      MPI_Waitall(kCount, requests.data(), MPI_STATUSES_IGNORE);
      for (int i = 0; i < kCount; ++i)
        expect(buffers[static_cast<size_t>(i)]->read() == sent(turn, i), "wrong bytes in a batch");
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  for (int i = 0; persistent && rank < 2 && i < kCount; ++i)
    MPI_Request_free(&requests[static_cast<size_t>(i)]);
  base += kTurns;
}

int class_of(int code) {
  int result = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &result);
  return result;
}

// A truncated message ends in an error and writes nothing past the buffer.
void truncation() {
  constexpr int kCapacity = 1000;
  Buffer buffer(Kind::device, 2 * kCapacity, rank % cuda().devices);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int turn = 0; turn < 6; ++turn) {
    const int count = turn % 2 == 0 ? 2 * kCapacity : 10;
    if (rank == 0) {
      buffer.write(content(2 * kCapacity, static_cast<unsigned>(turn)));
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Send(buffer.data(), count, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
    } else if (rank == 1) {
      buffer.write(std::vector<char>(2 * kCapacity, 0x55));
      MPI_Request request;
      MPI_Irecv(buffer.data(), kCapacity, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &request);
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Status status;
      const int error = class_of(MPI_Wait(&request, &status));
      int got = 0;
      MPI_Get_count(&status, MPI_BYTE, &got);
      const auto bytes = buffer.read();
      expect(error == (count > kCapacity ? MPI_ERR_TRUNCATE : MPI_SUCCESS), "error class of a truncation");
      expect(count > kCapacity || (got == count && bytes[10] == 0x55), "a short message");
      expect(bytes[kCapacity] == 0x55, "bytes written past the end");
    } else {
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

// Neither buffer can be mapped: the sender puts into a bounce buffer of the receiver and writes a flag behind
// the data. A missing flag costs only time. Shorter messages leave the rest of the buffer unchanged. Senders
// whose memory can be mapped are read instead.
// A rank has such a bounce buffer once it has sent from such memory.
void put_bounce(bool strict) {
  constexpr int kCapacity = 3'000'000, kTurns = 8, kMessages[] = {kCapacity, 300'000, 1, kCapacity};
  const auto flag_writes = [] { return cuda().emulated() ? cuda().calls("cuStreamWriteValue64") : 0; };
  Buffer pool(Kind::pool, kCapacity, rank % cuda().devices),
      plain(Kind::device, kCapacity, rank % cuda().devices);
  unsigned long words = 0;
  if (rank < 2)
    MPI_Sendrecv(pool.data(), 1, MPI_BYTE, 1 - rank, 6, pool.data() + 1, 1, MPI_BYTE, 1 - rank, 6,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int turn = 0; turn < kTurns; ++turn) {
    const int count = kMessages[turn % 4];
    const auto sent = content(kCapacity, static_cast<unsigned>(turn));
    const bool mapped = turn == kTurns - 3, no_flag = turn == kTurns - 2;
    if (rank == 0) {
      Buffer& buffer = mapped ? plain : pool;
      buffer.write(sent);
      MPI_Barrier(MPI_COMM_WORLD);
      const unsigned long before = flag_writes();
      if (no_flag && cuda().fail != nullptr) cuda().fail("cuStreamWriteValue64:1:801");
      MPI_Send(buffer.data(), count, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
      if (cuda().fail != nullptr) cuda().fail("");
      words += flag_writes() - before;
      expect(!mapped || flag_writes() == before, "put into a bounce buffer though the sender can be mapped");
    } else if (rank == 1) {
      pool.write(std::vector<char>(kCapacity, 0x55));
      MPI_Request request;
      MPI_Irecv(pool.data(), kCapacity, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &request);
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Status status;
      MPI_Wait(&request, &status);
      int got = 0;
      MPI_Get_count(&status, MPI_BYTE, &got);
      auto wanted = sent;
      std::fill(wanted.begin() + count, wanted.end(), char{0x55});
      expect(got == count && pool.read() == wanted,
             "a message through a bounce buffer, turn " + std::to_string(turn));
    } else {
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  expect(rank != 0 || !strict || words >= 3, "messages through a bounce buffer: " + std::to_string(words));
}

// The sender's GPU rejects the copy: both sides complete with an error, and later traffic works.
void fault(Kind kind) {
  constexpr int kBytes = 300'000;
  if (cuda().fail == nullptr) return;
  Buffer buffer(kind, kBytes, rank % cuda().devices);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int turn = 0; turn < 4; ++turn) {
    const bool fails = turn == 2;
    const int wanted = fails ? MPI_ERR_OTHER : MPI_SUCCESS;
    if (rank == 0) {
      buffer.write(content(kBytes, static_cast<unsigned>(turn)));
      MPI_Barrier(MPI_COMM_WORLD);
      if (fails) cuda().fail("cuMemcpyAsync:1:1");
      const int code = class_of(MPI_Send(buffer.data(), kBytes, MPI_BYTE, 1, 4, MPI_COMM_WORLD));
      cuda().fail("");
      expect(code == wanted, "error class of a send rejected by the GPU: " + std::to_string(code));
    } else if (rank == 1) {
      MPI_Request request;
      MPI_Irecv(buffer.data(), kBytes, MPI_BYTE, 0, 4, MPI_COMM_WORLD, &request);
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Status status;
      const int code = class_of(MPI_Wait(&request, &status));
      int got = -1;
      MPI_Get_count(&status, MPI_BYTE, &got);
      expect(code == wanted, "error class of a receive whose put failed: " + std::to_string(code));
      expect(got == (fails ? 0 : kBytes), "bytes of a receive whose put failed");
      expect(fails || buffer.read() == content(kBytes, static_cast<unsigned>(turn)), "wrong bytes");
    } else {
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

void pause_for(int microseconds) {
  if (microseconds != 0) std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

/// Posts and cancels a receive whose message is never sent.
void cancel_one(const Buffer& buffer, int source, MPI_Comm comm) {
  MPI_Request request;
  MPI_Status status;
  int cancelled = 0;
  MPI_Irecv(buffer.data(), static_cast<int>(buffer.size()), MPI_BYTE, source, 77, comm, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  expect(cancelled != 0, "a receive without a message was not cancelled");
}

/// A round between this rank and a peer: both send by their plans while they receive by the peer's plan.
class Exchange {
 public:
  Exchange(uint64_t seed, int peer, MPI_Comm comm)
      : out_(Draw(2 * seed + static_cast<uint64_t>(rank > peer)), rank),
        in_(Draw(2 * seed + static_cast<uint64_t>(rank < peer)), peer),
        draw_(seed * 31 + static_cast<uint64_t>(rank)),
        peer_(peer),
        comm_(comm),
        label_("seed " + std::to_string(seed) + " with rank " + std::to_string(peer)) {}

  void run() {
    size_t sent = 0, received = 0;
    while (sent < out_.sends.size() || received < in_.receives.size()) {
      const bool sends = sent < out_.sends.size();
      if (sends && (received == in_.receives.size() || draw_.one_in(2)))
        send(out_.sends[sent++]);
      else
        receive(in_.receives[received++]);
      int flag = 0;
      if (draw_.one_in(4)) MPI_Iprobe(MPI_ANY_SOURCE, 99, comm_, &flag, MPI_STATUS_IGNORE);
    }
    for (size_t i = 0; i < in_.receives.size(); ++i) check(i);
    MPI_Waitall(static_cast<int>(sends_.size()), sends_.data(), MPI_STATUSES_IGNORE);
  }

 private:
  void send(const Plan::Sent& m) {
    auto& buffer = *sent_.emplace_back(std::make_unique<Buffer>(m.kind, m.size + 1, rank % cuda().devices));
    buffer.write(content(m.size, m.seed));
    pause_for(m.pause);
    MPI_Request& request = sends_.emplace_back();
    const int count = static_cast<int>(m.size);
    if (m.mode == 0)
      MPI_Issend(buffer.data(), count, MPI_BYTE, peer_, m.tag, comm_, &request);
    else
      MPI_Isend(buffer.data(), count, MPI_BYTE, peer_, m.tag, comm_, &request);
  }

  void receive(const Plan::Received& r) {
    const size_t n = in_.sends[r.message].size + 9;
    auto& buffer = *received_.emplace_back(std::make_unique<Buffer>(r.kind, n, rank % cuda().devices));
    buffer.write(std::vector<char>(n, 0x55));
    pause_for(r.pause);
    if (r.cancelled_before) cancel_one(buffer, peer_, comm_);
    MPI_Irecv(buffer.data(), static_cast<int>(n - 1), MPI_BYTE, r.source, r.tag, comm_,
              &receives_.emplace_back());
  }

  void check(size_t i) {
    const Plan::Sent& m = in_.sends[in_.receives[i].message];
    MPI_Status status;
    MPI_Wait(&receives_[i], &status);
    int got = 0;
    MPI_Get_count(&status, MPI_BYTE, &got);
    const std::string what = "receive " + std::to_string(i) + ", " + label_;
    expect(got == static_cast<int>(m.size) && status.MPI_TAG == m.tag && status.MPI_SOURCE == peer_,
           "wrong message: " + what);
    auto wanted = content(m.size, m.seed);
    wanted.resize(m.size + 9, 0x55);
    expect(received_[i]->read() == wanted, "wrong bytes: " + what);
  }

  Plan out_, in_;
  Draw draw_;
  int peer_;
  MPI_Comm comm_;
  std::string label_;
  std::vector<std::unique_ptr<Buffer>> sent_, received_;
  std::vector<MPI_Request> sends_, receives_;
};

/// Rounds between pairs of ranks, in a communicator per thread; a rank without a partner waits.
void exchange(uint64_t seed, int rounds, double seconds, MPI_Comm comm) {
  weft::test::Context context = cuda().primary[static_cast<size_t>(rank % cuda().devices)];
  cuda().cuCtxSetCurrent(context);
  const double until = MPI_Wtime() + seconds;
  for (int round = 0;; ++round) {
    int more = seconds > 0 ? MPI_Wtime() < until : round < rounds;
    MPI_Bcast(&more, 1, MPI_INT, 0, comm);
    if (more == 0) break;
    const int peer = round % 2 == 0 ? rank ^ 1 : ranks - 1 - rank;
    if (peer < ranks && peer != rank)
      Exchange(seed * 100'000 + static_cast<uint64_t>(round) * 16 + static_cast<uint64_t>(rank + peer), peer,
               comm)
          .run();
    MPI_Barrier(comm);  // a receive from any source must match messages of this round only
  }
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 40;
  const double seconds = argc > 3 ? std::atof(argv[3]) : 0;
  const int threads = argc > 4 ? std::atoi(argv[4]) : 1;
  weft::test::start(argc, argv, rank, ranks, MPI_THREAD_MULTIPLE);
  {
    Word word;
    int round = 0;
    for (const size_t n : {8, 4000, 300'000, 3'000'000}) {
      passive_receiver(word, n, ++round, false);
      passive_receiver(word, n, ++round, true);
      passive_sender(word, n, ++round);
    }
    late_receives(word, 50'000, ++round);
    int base = 100'000;
    batched_puts(word, base, true);
    expect(rank != 0 || !cuda().emulated() || batched_sends >= 4,
           "sends started together are submitted one by one");
    batched_puts(word, base, false);
    truncation();
    fault(Kind::device);
    const bool always = std::getenv("TEST_PUT_BOUNCE") != nullptr;
    put_bounce(always);
    if (always) fault(Kind::pool);  // after put_bounce(), which has allocated the bounce buffer
    std::vector<MPI_Comm> comms(static_cast<size_t>(threads));
    for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    std::vector<std::thread> others;
    for (size_t i = 1; i < comms.size(); ++i)
      others.emplace_back([&, i] { exchange(seed + i, rounds, seconds, comms[i]); });
    exchange(seed, rounds, seconds, comms[0]);
    for (std::thread& other : others) other.join();
    for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
  }
  return weft::test::finish(failures);
}
