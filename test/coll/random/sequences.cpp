// SPDX-License-Identifier: BSD-3-Clause
// Random sequences of collectives on new communicators, in all forms and orders, on GPU and host buffers,
// with other delays on every rank. usage: sequences rounds COUNT SEED; sequences seconds TIME [SEED]
#include <mpi.h>
#include <sys/time.h>
#include <unistd.h>
#include <weft.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "coll/random/operation.hpp"
#include "device/mpi_main.hpp"
#include "reference/rounds.hpp"

namespace {

using randomized::Draw;
using sequences::Form;
using sequences::Operation;
using sequences::Slot;
using sequences::Team;

constexpr int kMostOperations = 8;
// Longest sequence: CPU time, which a waiting rank uses as well, and elapsed time.
constexpr long kHangCpuSeconds = 15;
constexpr unsigned kHangSeconds = 100;

int ranks;
unsigned long long seed_now;
long operations_run;
char step_now[200] = "start";
char program[200];

void report(const char* what) {
  char line[600];
  const int n = std::snprintf(line, sizeof line, "rank %d of %d: %s in %s rounds 1 %llu at: %s\n",
                              sequences::world_rank, ranks, what, program, seed_now, step_now);
  static_cast<void>(!write(2, line, static_cast<size_t>(n)));
}
void report_signal(int signal) {
  report(signal == SIGALRM || signal == SIGPROF ? "no end" : "crash");
  _exit(3);
}
void report_error(MPI_Comm*, int* code, ...) {
  char message[400];
  MPIX_Last_error_message(message, sizeof message, nullptr);
  report(message);
  MPI_Abort(MPI_COMM_WORLD, *code);
}

void at(const char* step, const char* text = "") {
  std::snprintf(step_now, sizeof step_now, "%s %s", step, text);
}

void watch(bool on) {
  const itimerval limit{{0, 0}, {on ? kHangCpuSeconds : 0, 0}};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
  ::alarm(on ? kHangSeconds : 0);
}

/// Delays of this rank, with and without progress.
class Pace {
 public:
  explicit Pace(uint64_t seed)
      : draw_(seed ^ 0x9e3779b97f4a7c15ULL * static_cast<uint64_t>(sequences::world_rank + 1)) {}
  void pause() {
    const int kind = draw_.below(8);
    const int microseconds = draw_.one_in(50) ? 2000 : draw_.below(100);
    if (kind < 2) ::usleep(static_cast<unsigned>(microseconds));
    if (kind == 2) progress_for(microseconds);
  }
  static void progress() {
    int there;
    MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[static_cast<size_t>(draw_.below(static_cast<int>(i)))]);
  }
  int below(int n) { return draw_.below(n); }

 private:
  static void progress_for(int microseconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
    while (std::chrono::steady_clock::now() < end) progress();
  }
  Draw draw_;
};

/// Whether the cap of GPU memory is too low for the regions of all communicators.
bool few_kernels() { return std::getenv("TEST_FEW_KERNELS") != nullptr; }

/// The GPU stream of all communicators that enqueue.
class EnqueueStream {
 public:
  EnqueueStream() {
    in_context([&](auto& driver) { driver.cuStreamCreate(&stream_, 1); });
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPIX_Info_set_hex(info, "value", &stream_, sizeof stream_);
    MPIX_Stream_create(info, &handle_);
    MPI_Info_free(&info);
  }
  ~EnqueueStream() {
    MPIX_Stream_free(&handle_);
    in_context([&](auto& driver) { driver.cuStreamDestroy_v2(stream_); });
  }
  EnqueueStream(const EnqueueStream&) = delete;
  /// MPI_COMM_NULL if the GPU memory for it is refused, which TEST_FEW_KERNELS allows.
  [[nodiscard]] MPI_Comm communicator() const {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    if (few_kernels()) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int code = MPIX_Stream_comm_create(MPI_COMM_WORLD, handle_, &comm);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Errhandler_free(&handler);
    if (code == MPI_SUCCESS) return comm;
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    if (error_class != MPI_ERR_UNSUPPORTED_OPERATION || !few_kernels()) MPI_Abort(MPI_COMM_WORLD, 1);
    return MPI_COMM_NULL;
  }
  /// Waits for the stream; MPI goes on meanwhile, since other ranks may need that before they enqueue.
  void drain() const {
    int code = 0;
    do {
      Pace::progress();
      in_context([&](auto& driver) { code = driver.cuStreamQuery(stream_); });
    } while (code == weft::device::cuda::kNotReady);
    if (code != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  }

 private:
  template <class Calls>
  static void in_context(Calls&& calls) {
    auto& driver = weft::test::cuda();
    driver.cuCtxSetCurrent(driver.primary[static_cast<size_t>(sequences::device)]);
    calls(driver);
    driver.cuCtxSetCurrent(driver.primary[0]);
  }
  weft::test::Stream stream_ = nullptr;
  MPIX_Stream handle_ = MPIX_STREAM_NULL;
};

/// A hint that changes the paths of collectives.
MPI_Info some_hint(Draw& draw) {
  static constexpr const char* kHints[][2] = {
      {"weft_coll_device", "off"},
      {"weft_coll_device", "on"},
      {"weft_coll_device_one_shot_max", "0"},
      {"weft_coll_device_packets_max", "0"},
      {"weft_coll_device_message_packets_max", "0"},
      {"weft_coll_device_lines_min", "0"},
  };
  const auto& hint = kHints[draw.below(static_cast<int>(std::size(kHints)))];
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, hint[0], hint[1]);
  return info;
}

Team make_team(Draw& draw, const EnqueueStream& stream) {
  Team team;
  const int kind = draw.below(24);
  const int world_rank = sequences::world_rank;
  switch (kind) {
    case 0:
      MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &team.comm);
      break;
    case 1:  // side by side
      MPI_Comm_split(MPI_COMM_WORLD, ranks > 2 ? world_rank / 2 : 0, world_rank, &team.comm);
      break;
    case 2:
    case 3: {
      MPI_Info info = some_hint(draw);
      MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &team.comm);
      MPI_Info_free(&info);
      break;
    }
    case 4:
      team.comm = stream.communicator();
      team.enqueues = team.comm != MPI_COMM_NULL;
      if (!team.enqueues) MPI_Comm_dup(MPI_COMM_WORLD, &team.comm);
      break;
    case 5:
      team.comm = MPI_COMM_WORLD;
      break;
    default:
      MPI_Comm_dup(MPI_COMM_WORLD, &team.comm);
  }
  MPI_Comm_rank(team.comm, &team.rank);
  MPI_Comm_size(team.comm, &team.size);
  return team;
}

class Sequence {
 public:
  Sequence(uint64_t seed, std::deque<Slot>& slots, const EnqueueStream& stream)
      : draw_(seed), pace_(seed), slots_(slots), stream_(stream) {}
  void run() {
    at("making communicators");
    for (int n = draw_.one_in(3) ? 1 + draw_.below(3) : draw_.one_in(30) ? 9 : 1; n > 0; --n)
      teams_.push_back(make_team(draw_, stream_));
    for (int n = 1 + draw_.below(kMostOperations); n > 0; --n) add();
    for (Operation& operation : operations_) operation.load();
    for (Operation& operation : operations_) {
      begin(operation);
      between();
    }
    const bool early = draw_.one_in(4);
    if (early) free_communicators();
    finish();
    for (Operation& operation : operations_) operation.check();
    for (int more = draw_.below(3); more > 0 && !early; --more) again();
    for (Operation& operation : operations_) operation.free();
    if (!early) free_communicators();
    operations_run += static_cast<long>(operations_.size());
  }

 private:
  using List = std::vector<Operation*>;

  const Team& some_team() {
    return teams_[static_cast<size_t>(draw_.below(static_cast<int>(teams_.size())))];
  }
  void add() {
    const Team& team = some_team();
    Form form = draw_.of({Form::blocking, Form::nonblocking, Form::persistent});
    if (team.enqueues && draw_.one_in(2)) form = Form::enqueued;
    operations_.emplace_back(team, slots_[operations_.size()], draw_, form);
  }
  void begin(Operation& operation) {
    pace_.pause();
    at("begin:", operation.text());
    operation.begin();
  }
  /// Starts, completes, frees some of what was begun.
  void between() {
    if (draw_.one_in(2)) start_idle();
    if (draw_.one_in(3)) {
      List some;
      for (Operation& operation : operations_)
        if (operation.pending() && draw_.one_in(2)) some.push_back(&operation);
      complete(some);
    }
    if (draw_.one_in(8)) drain();
    if (draw_.one_in(12)) change_hints(some_team());
  }
  void change_hints(const Team& team) {
    MPI_Info info = some_hint(draw_);
    at("changing hints");
    if (team.comm != MPI_COMM_WORLD) MPI_Comm_set_info(team.comm, info);
    MPI_Info_free(&info);
  }
  /// In an order of this rank.
  void start_idle() {
    List idle;
    for (Operation& operation : operations_)
      if (operation.idle() && !operation.ran()) idle.push_back(&operation);
    start(idle);
  }
  void start(List& list) {
    pace_.shuffle(list);
    for (Operation* operation : list) {
      pace_.pause();
      at("start:", operation->text());
      operation->start();
    }
  }
  void finish() {
    start_idle();
    List rest;
    for (Operation& operation : operations_)
      if (operation.pending()) rest.push_back(&operation);
    complete(rest);
    drain();
  }
  void drain() {
    at("waiting for the GPU stream");
    stream_.drain();
  }
  /// Persistent ones once more, some before a blocking one and some behind it, on each rank other ones.
  void again() {
    List persistent, before;
    for (Operation& operation : operations_)
      if (operation.idle()) persistent.push_back(&operation);
    if (persistent.empty()) return;
    Operation blocking(persistent.front()->team(), slots_.back(), draw_, Form::blocking);
    blocking.load();
    for (Operation* operation : persistent) operation->load();
    pace_.shuffle(persistent);
    List behind = persistent;
    for (int n = pace_.below(static_cast<int>(persistent.size()) + 1); n > 0; --n) {
      before.push_back(behind.back());
      behind.pop_back();
    }
    start(before);
    begin(blocking);
    start(behind);
    complete(persistent);
    blocking.check();
    for (Operation* operation : persistent) operation->check();
  }
  void complete(List list) {
    pace_.pause();
    pace_.shuffle(list);
    if (list.empty()) return;
    at("completing from:", list.front()->text());
    std::vector<MPI_Request> requests;
    for (const Operation* operation : list) requests.push_back(operation->request());
    wait(requests);
    for (size_t i = 0; i < list.size(); ++i) list[i]->completed(requests[i]);
  }
  void wait(std::vector<MPI_Request>& requests) {
    const auto n = static_cast<int>(requests.size());
    int done = 0, index = 0;
    switch (pace_.below(5)) {
      case 0:
        MPI_Waitall(n, requests.data(), MPI_STATUSES_IGNORE);
        break;
      case 1:
        for (MPI_Request& request : requests) {
          MPI_Wait(&request, MPI_STATUS_IGNORE);
          pace_.pause();
        }
        break;
      case 2:
        while (done == 0) MPI_Testall(n, requests.data(), &done, MPI_STATUSES_IGNORE);
        break;
      case 3:
        do MPI_Waitany(n, requests.data(), &index, MPI_STATUS_IGNORE);
        while (index != MPI_UNDEFINED);
        break;
      default: {
        std::vector<int> indices(requests.size());
        do MPI_Waitsome(n, requests.data(), &done, indices.data(), MPI_STATUSES_IGNORE);
        while (done != MPI_UNDEFINED);
      }
    }
  }
  void free_communicators() {
    at("freeing communicators");
    for (Team& team : teams_) {
      if (team.comm == MPI_COMM_WORLD) continue;
      if (team.enqueues) stream_.drain();
      MPI_Comm_free(&team.comm);
    }
  }

  Draw draw_;  // the same on all ranks
  Pace pace_;
  std::deque<Slot>& slots_;
  const EnqueueStream& stream_;
  std::deque<Team> teams_;
  std::deque<Operation> operations_;
};

/// With many operations on the emulator, kernels have run some of them, unless TEST_FEW_KERNELS is set.
int missing_kernels() {
  if (weft::test::cuda().collectives == nullptr || few_kernels()) return 0;
  if (ranks == 1 || operations_run < 200) return 0;
  unsigned long late = 0;
  const unsigned long done = weft::test::cuda().collectives(&late);
  if (done >= static_cast<unsigned long>(operations_run) / 8) return 0;
  std::fprintf(stderr, "rank %d: kernels did %lu of about %ld collectives\n", sequences::world_rank, done,
               operations_run);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  sequences::device = weft::test::own_device();
  weft::test::start(argc, argv, sequences::world_rank, ranks);
  std::snprintf(program, sizeof program, "%s", argv[0]);
  for (const int signal : {SIGALRM, SIGPROF, SIGSEGV, SIGABRT}) std::signal(signal, report_signal);
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(report_error, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  int missing = 0;
  {
    std::deque<Slot> slots(kMostOperations + 1);
    const EnqueueStream stream;
    const auto begin = std::chrono::steady_clock::now();
    const auto round = [&](uint64_t seed) {
      watch(true);
      seed_now = seed;
      Sequence(seed, slots, stream).run();
    };
    const long done = randomized::run_rounds(argc, argv, round, 1000);
    watch(false);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (sequences::world_rank == 0)
      std::printf("%ld sequences, %ld collectives, %.0f sequences a second\n", done, operations_run,
                  static_cast<double>(done) / time.count());
    missing = missing_kernels();
  }
  MPI_Errhandler_free(&handler);
  return weft::test::finish(missing);
}
