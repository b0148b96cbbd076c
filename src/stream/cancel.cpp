// SPDX-License-Identifier: BSD-3-Clause
#include "stream/cancel.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/log.hpp"
#include "base/process_watch.hpp"
#include "stream/order/order.hpp"
#include "stream/retired_regions.hpp"
#include "stream/streams.hpp"
#include "transport/shm/shm.hpp"

namespace weft::stream {
namespace {

log::SlowPath unwatched("stream.unwatched_processes",
                        "a stream that waits for a process that has died ends with the job only");

}  // namespace

/// The processes of this host that words name, and the thread that waits for their end.
class Canceller {
 public:
  explicit Canceller(core::Instance& instance) : instance_(instance), wake_(::eventfd(0, EFD_CLOEXEC)) {
    sigset_t all, before;  // signals of the application go to its own threads
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Canceller() {
    {
      const std::lock_guard guard(mutex_);
      ending_ = true;
    }
    ::eventfd_write(wake_, 1);
    thread_.join();
    ::close(wake_);
  }
  Canceller(const Canceller&) = delete;
  Canceller& operator=(const Canceller&) = delete;

  void add(std::vector<core::ProcessId> processes, uint32_t& word) {
    const std::lock_guard guard(mutex_);
    for (const core::ProcessId process : processes) watch(process);
    words_.push_back({std::move(processes), &word});
    for (const core::ProcessId process : failed_) cancel(words_.back(), process);
    ::eventfd_write(wake_, 1);
  }
  void remove(const uint32_t& word) {
    const std::lock_guard guard(mutex_);
    std::erase_if(words_, [&](const Word& entry) { return entry.word == &word; });
    // A process of another job is known as long as a communicator has it.
    const auto unknown = [&](core::ProcessId process) {
      return !instance_.processes.in_own_job(process) &&
             std::none_of(words_.begin(), words_.end(),
                          [&](const Word& entry) { return names(entry, process); });
    };
    std::erase_if(watched_, [&](const Watched& watched) { return unknown(watched.process); });
    std::erase_if(failed_, unknown);
    ::eventfd_write(wake_, 1);
  }

 private:
  struct Watched {
    core::ProcessId process;
    ProcessWatch watch;
    const std::atomic<uint32_t>* departed;
  };
  struct Word {
    std::vector<core::ProcessId> processes;  // of the communicator
    uint32_t* word;
  };

  static bool names(const Word& entry, core::ProcessId process) {
    return std::find(entry.processes.begin(), entry.processes.end(), process) != entry.processes.end();
  }
  static void cancel(const Word& entry, core::ProcessId process) {
    if (names(entry, process)) __atomic_store_n(entry.word, 1, __ATOMIC_RELEASE);
  }

  void watch(core::ProcessId process) {
    const auto is = [&](const Watched& watched) { return watched.process == process; };
    if (process == instance_.self || !instance_.same_host(process) ||
        std::any_of(watched_.begin(), watched_.end(), is) ||
        std::find(failed_.begin(), failed_.end(), process) != failed_.end())
      return;
    const auto pid = instance_.shm->pid_of(process);
    auto watch = pid ? ProcessWatch::open(*pid) : Result<ProcessWatch>(pid.error().copy());
    if (!watch)
      unwatched.hit(watch.error().message());
    else
      watched_.push_back({process, std::move(*watch), &instance_.shm->departed(process)});
  }

  void look() {
    std::erase_if(watched_, [this](const Watched& watched) {
      if (!watched.watch.ended()) return false;
      const uint32_t departed = watched.departed->load(std::memory_order_acquire);
      if (departed != 0 && departed != core::FailureDetector::kLeftJob) return true;
      failed_.push_back(watched.process);
      for (const Word& entry : words_) cancel(entry, watched.process);
      return true;
    });
  }

  void run() {
    for (;;) {
      std::vector<pollfd> waits{{wake_, POLLIN, 0}};
      {
        const std::lock_guard guard(mutex_);
        if (ending_) return;
        look();
        for (const Watched& watched : watched_) waits.push_back({watched.watch.descriptor(), POLLIN, 0});
      }
      ::poll(waits.data(), waits.size(), -1);
      eventfd_t changes = 0;
      if (waits[0].revents != 0) ::eventfd_read(wake_, &changes);
    }
  }

  core::Instance& instance_;
  const int wake_;
  std::mutex mutex_;  // guards the members below
  bool ending_ = false;
  std::vector<Watched> watched_;
  std::vector<core::ProcessId> failed_;
  std::vector<Word> words_;
  std::thread thread_;
};

Streams::Streams() = default;
Streams::~Streams() = default;

Streams& Streams::of(core::Instance& instance) {
  if (instance.gpu_streams == nullptr) instance.gpu_streams = std::make_unique<Streams>();
  return static_cast<Streams&>(*instance.gpu_streams);
}

void cancel_on_failure(core::Communicator& comm, uint32_t& word) {
  if (!launch::continues_on_failure() || comm.instance.shm == nullptr) return;
  auto& canceller = Streams::of(comm.instance).canceller;
  if (canceller == nullptr) canceller = std::make_unique<Canceller>(comm.instance);
  canceller->add(comm.group->processes(), word);
}

void forget_cancel_word(core::Instance& instance, const uint32_t& word) {
  if (const auto& canceller = Streams::of(instance).canceller) canceller->remove(word);
}

}  // namespace weft::stream
