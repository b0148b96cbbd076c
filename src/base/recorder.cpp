// SPDX-License-Identifier: BSD-3-Clause
#include "base/recorder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/config.hpp"

namespace weft::recorder {
namespace {

config::Path folder{
    "trace.folder", "",
    "Existing folder in which each process writes a file of its MPI calls, protocol steps and "
    "copies, as `weft trace` sets it; empty: nothing is recorded."};

constexpr size_t kBuffered = 1 << 15;  // complete ranges of a thread between two writes
constexpr int kMaxDepth = 64;          // deeper ranges are not recorded

/// A complete range.
struct Entry {
  const char* name;
  uint64_t begin, end;
  trace::Details details;
};

/// The ranges of a thread, or of a GPU stream.
struct Track {
  std::mutex lock;  // the owner appends, another thread may flush
  int number;
  const char* stream;  // null: a thread
  int depth = 0;
  Entry open[kMaxDepth];
  std::vector<Entry> complete;
};

struct Recorder {
  std::mutex lock;  // of the members; taken before that of a track
  int fd = -1;
  int rank = -1, size = 0, host = 0;
  uint32_t job = 0;
  bool described = false;  // the first line is written
  std::string clocks;      // lines that are not written yet
  std::vector<std::unique_ptr<Track>> tracks;
  std::map<std::string_view, Track*> streams;
};

Recorder& recorder() {
  static auto& one = *new Recorder;  // never destroyed: threads may outlive static objects
  return one;
}
bool on = false;
pid_t owner = 0;  // a child of fork() must not write to the file

Track& add_track(Recorder& all, const char* stream) {
  auto track = std::make_unique<Track>();
  track->number = static_cast<int>(all.tracks.size());
  track->stream = stream;
  track->complete.reserve(kBuffered);
  all.tracks.push_back(std::move(track));
  return *all.tracks.back();
}

Track& own_track() {
  thread_local Track* own = nullptr;
  if (own == nullptr) {
    Recorder& all = recorder();
    const std::lock_guard guard(all.lock);
    own = &add_track(all, nullptr);
  }
  return *own;
}

Track& track_of(const char* stream) {
  Recorder& all = recorder();
  const std::lock_guard guard(all.lock);
  Track*& found = all.streams[stream];
  if (found == nullptr) found = &add_track(all, stream);
  return *found;
}

void write_all(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // a full disk: the trace ends here
    at += static_cast<size_t>(n);
  }
}

/// The first line: the process, and both clocks at one moment.
std::string description(const Recorder& all) {
  timespec real{};
  ::clock_gettime(CLOCK_REALTIME, &real);
  char text[256];
  std::snprintf(
      text, sizeof text, "weft-trace 4 rank %d size %d job %u host %d pid %d monotonic %llu realtime %llu\n",
      all.rank, all.size, all.job, all.host, static_cast<int>(::getpid()),
      static_cast<unsigned long long>(monotonic_ns()),
      static_cast<unsigned long long>(real.tv_sec) * 1'000'000'000u + static_cast<unsigned>(real.tv_nsec));
  return text;
}

/// Writes the complete ranges of a track. Under both locks.
void write_track(Recorder& all, Track& track) {
  if ((track.complete.empty() && all.clocks.empty()) || all.fd < 0 || owner != ::getpid())
    return track.complete.clear();
  std::string text;
  if (!all.described) text = description(all);
  all.described = true;
  text += all.clocks;
  all.clocks.clear();
  char line[192];
  for (const Entry& entry : track.complete) {
    std::snprintf(line, sizeof line, "%d %llu %llu %llu %d %d %llu %s%s%s\n", track.number,
                  static_cast<unsigned long long>(entry.begin), static_cast<unsigned long long>(entry.end),
                  static_cast<unsigned long long>(entry.details.bytes), entry.details.peer, entry.details.tag,
                  static_cast<unsigned long long>(entry.details.communicator),
                  track.stream != nullptr ? track.stream : "", track.stream != nullptr ? "|" : "",
                  entry.name);
    text += line;
  }
  track.complete.clear();
  write_all(all.fd, text);
}

void append(Track& track, const Entry& entry) {
  {
    const std::lock_guard guard(track.lock);
    track.complete.push_back(entry);
    if (track.complete.size() < kBuffered) return;
  }
  Recorder& all = recorder();
  const std::lock_guard outer(all.lock);
  const std::lock_guard inner(track.lock);
  write_track(all, track);
}

}  // namespace

bool enabled() { return on; }

Status open() {
  if (on || folder.value().empty()) return {};
  char host[64] = "host";
  (void)::gethostname(host, sizeof host - 1);
  const std::string path = folder.value() + "/" + host + "." + std::to_string(::getpid()) + ".trace";
  Recorder& all = recorder();
  all.fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (all.fd < 0)
    return Error(
        Errc::file,
        "cannot create " + path + " (" + std::strerror(errno) +
            "): set WEFT_TRACE_FOLDER to an existing folder that all ranks can write to, or unset it");
  owner = ::getpid();
  std::atexit(flush);
  on = true;
  return {};
}

void set_process(int rank, int size, uint32_t job, int host) {
  Recorder& all = recorder();
  const std::lock_guard guard(all.lock);
  if (!on || all.rank >= 0) return;
  all.rank = rank;
  all.size = size;
  all.job = job;
  all.host = host;
}

void add_clock(uint64_t when, int64_t offset, uint64_t error) {
  if (!on) return;
  char line[96];
  std::snprintf(line, sizeof line, "clock %llu %lld %llu\n", static_cast<unsigned long long>(when),
                static_cast<long long>(offset), static_cast<unsigned long long>(error));
  Recorder& all = recorder();
  const std::lock_guard guard(all.lock);
  all.clocks += line;
}

void flush() {
  if (!on) return;
  Recorder& all = recorder();
  const std::lock_guard guard(all.lock);
  for (const auto& track : all.tracks) {
    const std::lock_guard inner(track->lock);
    write_track(all, *track);
  }
}

void push(const char* name) {
  Track& track = own_track();
  if (track.depth < kMaxDepth) track.open[track.depth] = {name, monotonic_ns(), 0, {}};
  ++track.depth;
}

void pop() {
  Track& track = own_track();
  WEFT_ASSERT(track.depth > 0);
  if (--track.depth >= kMaxDepth) return;
  Entry& entry = track.open[track.depth];
  entry.end = monotonic_ns();
  append(track, entry);
}

void annotate(const trace::Details& details) {
  Track& track = own_track();
  if (track.depth > 0 && track.depth <= kMaxDepth) track.open[track.depth - 1].details = details;
}

void copy(const char* stream, uint64_t since, uint64_t bytes) {
  append(track_of(stream), {"copy", since, monotonic_ns(), {bytes, -1, -1}});
}

}  // namespace weft::recorder
