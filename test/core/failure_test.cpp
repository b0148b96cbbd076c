// SPDX-License-Identifier: BSD-3-Clause
// The failure detector: killed processes are reported once, processes that departed are not.
#include "core/failure.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>

#include "base/clock.hpp"
#include "base/events.hpp"

namespace weft::core {
namespace {

using Word = std::atomic<uint32_t>;

/// A child that sets its word to `departed` and then waits to be killed.
class Child {
 public:
  explicit Child(uint32_t departed) {
    word_ = new (::mmap(nullptr, sizeof(Word), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
        Word(0);
    pid_ = ::fork();
    if (pid_ == 0) {
      word_->store(departed);
      for (;;) ::pause();
    }
    while (word_->load() != departed) ::usleep(100);
  }
  ~Child() {
    kill();
    ::munmap(static_cast<void*>(word_), sizeof(Word));
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const Word& word() const { return *word_; }

 private:
  Word* word_;
  pid_t pid_;
};

/// Looks until `done` or for a second.
template <class Done>
void look_until(FailureDetector& detector, Done&& done) {
  const uint64_t end = monotonic_ns() + 1'000'000'000;
  while (!done() && monotonic_ns() < end) (void)detector.look(monotonic_ns());
}

TEST(FailureDetector, ReportsAKilledProcessOnceWithin100Ms) {
  FailureDetector detector;
  std::vector<ProcessId> reported;
  detector.add([&](ProcessId process, const Error&) { reported.push_back(process); });
  Child child(0), other(0);
  ASSERT_TRUE(detector.watch(5, child.pid(), child.word()).ok());
  ASSERT_TRUE(detector.watch(6, other.pid(), other.word()).ok());
  EXPECT_FALSE(detector.look(monotonic_ns()));
  child.kill();
  const uint64_t killed = monotonic_ns();
  look_until(detector, [&] { return detector.any_failed(); });
  EXPECT_LT(monotonic_ns() - killed, 100'000'000u);
  EXPECT_TRUE(detector.failed(5));
  EXPECT_FALSE(detector.failed(6));
  detector.report(5, Error(Errc::proc_aborted, "once more"));
  EXPECT_EQ(reported, std::vector<ProcessId>{5});
  EXPECT_NE(detector.error_of(5).message().find("without MPI_Finalize"), std::string::npos);
}

TEST(FailureDetector, AProcessThatDepartedHasNotFailed) {
  FailureDetector detector;
  Child child(1);
  ASSERT_TRUE(detector.watch(1, child.pid(), child.word()).ok());
  child.kill();
  for (int i = 0; i < 5; ++i)
    EXPECT_FALSE(detector.look(monotonic_ns() + i * FailureDetector::kLookIntervalNs));
  EXPECT_FALSE(detector.any_failed());
}

TEST(FailureDetector, AProcessThatLeavesTheJobIsReportedAfterTheGrace) {
  FailureDetector detector;
  Child child(FailureDetector::kLeftJob), gone(FailureDetector::kLeftJob);
  const pid_t gone_pid = gone.pid();
  gone.kill();
  ASSERT_TRUE(detector.watch(1, child.pid(), child.word()).ok());
  ASSERT_TRUE(detector.watch(2, gone_pid, gone.word()).ok());
  child.kill();
  detector.leaves(3, Error(Errc::proc_aborted, "notice"));
  const uint64_t begin = monotonic_ns();
  EXPECT_FALSE(detector.look_now(begin));
  EXPECT_FALSE(detector.any_failed());
  EXPECT_TRUE(detector.look_now(begin + 2 * FailureDetector::kLeaveGraceNs));
  for (const ProcessId process : {1, 2, 3}) EXPECT_TRUE(detector.failed(process));
  EXPECT_NE(detector.error_of(1).message().find("has left the job"), std::string::npos);
  EXPECT_EQ(detector.first_death_ns(), 0u);
}

TEST(FailureDetector, LooksAtTheClockBetweenIntervalsOnly) {
  FailureDetector detector;
  Child child(0);
  ASSERT_TRUE(detector.watch(1, child.pid(), child.word()).ok());
  EXPECT_FALSE(detector.look(1));
  child.kill();
  EXPECT_FALSE(detector.look(FailureDetector::kLookIntervalNs));
  EXPECT_TRUE(detector.look(FailureDetector::kLookIntervalNs + 1));
}

TEST(FailureDetector, ChecksGroups) {
  FailureDetector detector;
  detector.report(2, Error(Errc::proc_aborted, "connection reset"));
  EXPECT_TRUE(detector.check(Group({0, 1}, 0)).ok());
  const Status broken = detector.check(Group({0, 2}, 0));
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().code(), Errc::proc_aborted);
  EXPECT_NE(broken.error().message().find("connection reset"), std::string::npos);
}

TEST(FailureDetector, AProcessThatIsGoneHasFailedUnlessItDeparted) {
  FailureDetector detector;
  Child killed(0), departed(1);
  const pid_t killed_pid = killed.pid(), departed_pid = departed.pid();
  killed.kill();
  departed.kill();
  ASSERT_TRUE(detector.watch(1, killed_pid, killed.word()).ok());
  ASSERT_TRUE(detector.watch(2, departed_pid, departed.word()).ok());
  EXPECT_TRUE(detector.failed(1));
  EXPECT_FALSE(detector.failed(2));
}

TEST(FailureDetector, OnlyADeathOnThisHostHasATime) {
  FailureDetector detector;
  detector.report(3, Error(Errc::proc_aborted, "connection reset"));
  EXPECT_EQ(detector.first_death_ns(), 0u);
  Child child(0);
  ASSERT_TRUE(detector.watch(1, child.pid(), child.word()).ok());
  const uint64_t before = monotonic_ns();
  child.kill();
  look_until(detector, [&] { return detector.failed(1); });
  EXPECT_GE(detector.first_death_ns(), before);
  EXPECT_LE(detector.first_death_ns(), monotonic_ns());
}

std::vector<uint64_t> raised;

TEST(FailureDetector, RaisesAnEvent) {
  for (events::Event* event : events::all())
    if (std::string_view(event->name()) == "core.process_failed") event->set_wanted(true);
  events::set_sink([](const events::Event&, std::initializer_list<uint64_t> values, uint64_t) {
    raised.insert(raised.end(), values);
  });
  FailureDetector detector;
  detector.report(5, Error(Errc::proc_aborted, "unreachable"));
  detector.report(5, Error(Errc::proc_aborted, "unreachable"));
  detector.report(9, Error(Errc::proc_aborted, "unreachable"));
  EXPECT_EQ(raised, (std::vector<uint64_t>{5, 9}));
}

}  // namespace
}  // namespace weft::core
