// SPDX-License-Identifier: BSD-3-Clause
// Random programs that mix everything: collectives in all forms, messages with wildcards and probes, windows,
// and communicators that come and go, all in flight together, on GPU and host memory that is freed and
// allocated again. Every result is compared with an oracle. usage: mixed rounds COUNT SEED; mixed seconds
// TIME [SEED]
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "coll/expect.hpp"
#include "coll/random/job.hpp"
#include "random/item.hpp"
#include "random/messages.hpp"
#include "random/sizes.hpp"
#include "reference/rounds.hpp"
#include "rma/oracle/session.hpp"
#include "time_limit.hpp"

namespace {

using mixed::Draw;
using mixed::Items;
using mixed::Messages;
using randomized::Job;
using randomized::Team;

constexpr int kSteps = 60, kTeams = 5, kWindows = 2;
constexpr double kHangSeconds = 60;  // of one program

long items_started = 0, epochs_run = 0, teams_made = 0;

/// A collective.
class Collective final : public mixed::Item {
 public:
  Collective(std::shared_ptr<const Team> team, Draw& draw)
      : team_(std::move(team)),
        calls_(draw.one_in(3) ? kBurst : 1),
        job_(*team_, draw, mixed::sizes_of(draw)) {}
  ~Collective() override {
    if (job_.persistent()) job_.free();
  }
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  void start() override {
    load();
    job_.begin();
    // Blocking calls in quick succession reach the resident kernel and shared memory.
    for (int more = job_.blocking() ? calls_ - 1 : 0; more > 0; --more) {
      check();
      load();
      job_.begin();
    }
  }
  void restart() override {
    load();
    job_.restart();
  }
  [[nodiscard]] bool persistent() const override { return job_.persistent(); }
  [[nodiscard]] std::vector<MPI_Request*> requests() override {
    if (job_.request() == MPI_REQUEST_NULL) return {};
    return {&job_.request()};
  }
  void completed(size_t /*request*/, const MPI_Status& /*status*/) override {
    if (!job_.persistent() && job_.request() != MPI_REQUEST_NULL)
      expect::fail("a request outlives its completion");
  }
  void check() override {
    copies_.download();
    job_.compare();
  }
  [[nodiscard]] std::string text() const override { return job_.text(); }

 private:
  void load() {
    job_.load();
    copies_.upload();
  }
  static constexpr int kBurst = 8;
  const std::shared_ptr<const Team> team_;
  const int calls_;
  expect::FieldCopies copies_;
  Job job_;
};

/// A window on a communicator of its own.
struct Window {
  Window(const Team& team, Draw& draw) : comm(team.comm), session(comm.handle, draw) {}
  struct Duplicate {
    explicit Duplicate(MPI_Comm of) { expect::success(MPI_Comm_dup(of, &handle)); }
    ~Duplicate() { MPI_Comm_free(&handle); }
    Duplicate(const Duplicate&) = delete;
    Duplicate& operator=(const Duplicate&) = delete;
    MPI_Comm handle = MPI_COMM_NULL;
  } comm;
  oracle::Session session;
};

/// One random program. All ranks draw the same steps, each from a seed of its own, since ranks that are not
/// in a communicator skip what happens there.
class Program {
 public:
  explicit Program(uint64_t seed)
      : seed_(seed),
        pace_(seed ^ 0x9e3779b97f4a7c15ULL * static_cast<uint64_t>(team(0).rank + 1)),
        items_(pace_) {}

  void run() {
    for (step_ = 0; step_ < kSteps; ++step_) {
      Draw draw(seed_ + static_cast<uint64_t>(step_) * 7919);
      where("");
      act(draw);
      if (pace_.one_in(8)) ::usleep(static_cast<unsigned>(pace_.below(500)));
      if (pace_.one_in(2)) items_.test_some();
      items_.restart_some(step_, seed_);
      items_.end(step_);
    }
    where("end");
    items_.end(kForever);
    for (auto& window : windows_) window.reset();
    for (auto& team : teams_) disband(*team);
    items_started += items_.started();
  }

 private:
  static constexpr int kForever = 1 << 30;

  [[nodiscard]] Team& team(int i) { return *teams_[static_cast<size_t>(i)]; }

  void where(const char* what) {
    std::snprintf(expect::step, sizeof expect::step, "seed %llu, step %d, ",
                  static_cast<unsigned long long>(seed_), step_);
    std::snprintf(expect::situation, sizeof expect::situation, "%s", what);
  }

  void act(Draw& draw) {
    const int kind = draw.below(20), slot = draw.one_in(2) ? 0 : draw.below(kTeams);
    choose_memory(draw);
    if (kind < 10) return add(slot, draw, false);
    if (kind < 14) return add(slot, draw, true);
    if (kind < 16) return make_team(slot, draw);
    if (kind < 17) return free_team(draw);
    change_window(kind, slot, draw);
  }

  /// Memory of the next item: on all ranks alike, or of another kind on each rank.
  static void choose_memory(Draw& draw) {
    const char* const kind = draw.of({"device", "device", "device", "device", "host", "host", "mixed",
                                      "mixed", "pool", "managed", "mapped", "unshared"});
    expect::use_memory(kind, !draw.one_in(3));
  }

  void add(int slot, Draw& draw, bool messages) {
    const std::shared_ptr<Team>& on = teams_[static_cast<size_t>(slot)];
    if (!on->exists()) return;
    const int due = step_ + (draw.one_in(8) ? draw.below(30) : draw.below(6));
    if (messages && !on->inter())
      items_.add(std::make_unique<Messages>(on, draw, step_), step_, due);
    else
      items_.add(std::make_unique<Collective>(on, draw), step_, due);
  }

  /// Items in flight go on when their communicator is freed.
  void make_team(int from, Draw& draw) {
    auto& to = teams_[static_cast<size_t>(1 + draw.below(kTeams - 1))];
    const std::shared_ptr<Team> parent = teams_[static_cast<size_t>(from)];
    auto made = std::make_shared<Team>();
    if (parent->exists()) {
      where("making a communicator");
      *made = randomized::derive(*parent, draw);
      ++teams_made;
    }
    disband(*to);
    to = made;
  }
  void free_team(Draw& draw) {
    where("freeing a communicator");
    disband(team(1 + draw.below(kTeams - 1)));
  }

  void change_window(int kind, int slot, Draw& draw) {
    auto& window = windows_[static_cast<size_t>(draw.below(kWindows))];
    if (kind == 17) {
      where("replacing a window");
      window.reset();
      if (team(slot).exists() && !team(slot).inter()) window = std::make_unique<Window>(team(slot), draw);
    } else if (window) {
      where("an epoch");
      ++epochs_run;
      window->session.epoch(draw, pace_, 1, expect::step);
    }
  }

  const uint64_t seed_;
  int step_ = 0;
  std::array<std::shared_ptr<Team>, kTeams> teams_ = [] {
    std::array<std::shared_ptr<Team>, kTeams> teams;
    for (auto& team : teams) team = std::make_shared<Team>();
    *teams[0] = randomized::world_team();
    return teams;
  }();
  Draw pace_;  // of this rank
  Items items_;
  std::array<std::unique_ptr<Window>, kWindows> windows_;
};

void report_hang(int) {
  char line[500];
  const int n = std::snprintf(line, sizeof line, "no end: %s%s\n", expect::step, expect::situation);
  static_cast<void>(!write(2, line, static_cast<size_t>(n)));
  _exit(3);
}

}  // namespace

int main(int argc, char** argv) {
  expect::init_memory();
  oracle::init_memory();
  MPI_Init(&argc, &argv);
  oracle::create_elements();
  std::signal(SIGALRM, report_hang);
  const auto round = [](uint64_t seed) {
    ::alarm(static_cast<unsigned>(weft::test::time_limit(kHangSeconds)));
    Program(seed).run();
  };
  const long rounds = randomized::run_rounds(argc, argv, round);
  ::alarm(0);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    std::printf(
        "%ld programs: %ld starts of collectives and batches of messages, %ld epochs, %ld communicators, %ld "
        "comparisons in rank 0\n",
        rounds, items_started, epochs_run, teams_made, expect::checks);
  expect::use_memory("host", false);
  oracle::destroy_elements();
  expect::close();
  MPI_Finalize();
  return 0;
}
