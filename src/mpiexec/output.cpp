// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "mpiexec/labels.hpp"
#include "mpiexec/output_file.hpp"
#include "mpiexec/processes.hpp"
#include "mpiexec/report.hpp"

namespace weft::mpiexec {

namespace {

constexpr size_t kReadBytes = 64 * 1024;
/// A longer line is forwarded in parts; lines of other ranks may appear in between.
constexpr size_t kMaxLineBytes = 1024 * 1024;
/// An incomplete line (a prompt, dots, a progress bar) is forwarded after this time.
constexpr auto kLineTimeout = std::chrono::milliseconds(100);
/// Programs that do not flush write their output in blocks of a multiple of this size (4096 bytes in glibc,
/// 8192 in Python and gfortran), which end anywhere in a line. Its rest comes with the next block, maybe much
/// later.
constexpr size_t kProgramBufferBytes = 4096;

bool is_same_file(int a, int b) {
  struct stat first {
  }, second{};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

/// Returns the length of the part of `bytes` that can be forwarded at once: up to and with the last line
/// feed, or a carriage return at the end, or up to a carriage return inside, which begins the next state of a
/// progress bar. npos: none of these.
size_t length_to_forward(std::string_view bytes) {
  const auto last = [&](char byte) -> size_t {
    const void* at = ::memrchr(bytes.data(), byte, bytes.size());
    return at == nullptr ? bytes.npos : static_cast<size_t>(static_cast<const char*>(at) - bytes.data());
  };
  const size_t line_feed = last('\n'), carriage_return = last('\r');
  if (carriage_return != bytes.npos && (line_feed == bytes.npos || carriage_return > line_feed))
    return carriage_return + 1 == bytes.size() ? bytes.size() : carriage_return;
  return line_feed == bytes.npos ? bytes.npos : line_feed + 1;
}

}  // namespace

Output::Output(const std::vector<Source>& sources, Format format)
    : first_streams_(sources.size()),
      format_(std::move(format)),
      one_target_(is_same_file(STDOUT_FILENO, STDERR_FILENO)) {
  for (const Source& source : sources) streams_.push_back(Stream{source});
}

bool Output::Stream::is_late(Clock::time_point now) const {
  return !line.empty() && !full_buffer && now - since >= kLineTimeout;
}

Status Output::create_file(Stream& stream, int ranks) {
  const std::string& pattern = to_error(stream) ? format_.error_file : format_.output_file;
  if (pattern.empty()) return {};
  const Source& source = stream.source;
  auto file = create_output_file(output_file_name(pattern, source.rank, ranks, source.spawned_job + 1));
  if (!file) return std::move(file).error();
  stream.file = *file;
  return {};
}

Status Output::start() {
  for (Stream& stream : streams_) WEFT_TRY(create_file(stream, static_cast<int>(streams_.size() / 2)));
  done_ = ::eventfd(0, EFD_CLOEXEC);
  wake_ = done_ >= 0 ? ::eventfd(0, EFD_CLOEXEC) : -1;
  if (wake_ < 0) return system_call_error("open an event descriptor", errno);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return system_call_error("start a thread", error.code().value());
  }
  return {};
}

Output::~Output() {
  finish();
  if (thread_.joinable()) thread_.join();
  for (const int fd : {done_, wake_})
    if (fd >= 0) ::close(fd);
}

void Output::finish() {
  finishing_ = true;
  ::eventfd_write(wake_, 1);
}

void Output::add(const std::vector<Source>& sources) {
  {
    const std::lock_guard guard(added_mutex_);
    added_.insert(added_.end(), sources.begin(), sources.end());
  }
  ::eventfd_write(wake_, 1);
}

void Output::update_streams() {
  const auto later = streams_.begin() + static_cast<std::ptrdiff_t>(first_streams_);
  streams_.erase(
      std::remove_if(later, streams_.end(), [](const Stream& stream) { return stream.source.fd < 0; }),
      streams_.end());
  const std::lock_guard guard(added_mutex_);
  for (const Source& source : added_) {
    Stream& stream = streams_.emplace_back(Stream{source});
    const auto of_job = std::count_if(added_.begin(), added_.end(), [&](const Source& other) {
      return other.spawned_job == source.spawned_job;
    });
    if (const Status created = create_file(stream, static_cast<int>(of_job / 2)); !created.ok()) {
      print_message(created.error().message());
      lost_ = true;
    }
  }
  added_.clear();
}

int Output::timeout() const {
  auto earliest = Clock::time_point::max();
  for (const Stream& stream : streams_)
    if (!stream.line.empty() && !stream.full_buffer)
      earliest = std::min(earliest, stream.since + kLineTimeout);
  if (earliest == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(earliest - Clock::now());
  return static_cast<int>(std::max(left.count(), decltype(left.count())(0)));
}

void Output::run() {
  std::vector<pollfd> events;
  size_t open = streams_.size();
  for (bool last_round = false; !last_round || open > 0;) {
    last_round = finishing_;
    update_streams();
    events.assign(1, {wake_, POLLIN, 0});
    for (const Stream& stream : streams_) events.push_back({stream.source.fd, POLLIN, 0});
    const int ready = last_round ? 0 : ::poll(events.data(), events.size(), timeout());
    if (ready < 0 && errno != EINTR) {  // out of memory: try every descriptor after a pause
      ::usleep(kPollRetryIntervalUs);
      for (pollfd& event : events) event.revents = POLLIN;
    }
    eventfd_t ignored;
    if (!last_round && ready > 0 && events[0].revents != 0) ::eventfd_read(wake_, &ignored);
    open = 0;
    for (size_t i = 0; i < streams_.size(); ++i) {
      Stream& stream = streams_[i];
      if (last_round) {
        while (stream.source.fd >= 0 && read(stream)) {
        }
        if (stream.source.fd >= 0) close(stream);
      } else if (stream.source.fd >= 0 && events[i + 1].revents != 0) {
        read(stream);
      }
      if (stream.is_late(Clock::now())) flush(stream);
      open += stream.source.fd >= 0;
    }
  }
  report_deferred_errors();
  ::eventfd_write(done_, 1);
}

bool Output::read(Stream& stream) {
  static thread_local const std::unique_ptr<char[]> buffer(new char[kReadBytes]);
  const ssize_t n = ::read(stream.source.fd, buffer.get(), kReadBytes);
  if (n > 0) {
    forward(stream, {buffer.get(), static_cast<size_t>(n)});
    return true;
  }
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return errno == EINTR;
  if (n < 0) report_lost(stream.source.is_error, errno);
  close(stream);
  return false;
}

void Output::forward(Stream& stream, std::string_view bytes) {
  const auto now = Clock::now();
  if (now - stream.last >= kLineTimeout) stream.burst = 0;
  stream.last = now;
  stream.burst += bytes.size();
  stream.full_buffer = stream.burst % kProgramBufferBytes == 0 || bytes.size() % kProgramBufferBytes == 0;
  const size_t length = length_to_forward(bytes);
  if (stream.line.empty()) stream.since = now;
  if (length != bytes.npos) {
    stream.line.append(bytes.substr(0, length));
    flush(stream);
    stream.since = now;
    bytes.remove_prefix(length);
  }
  stream.line.append(bytes);
  if (stream.line.size() >= kMaxLineBytes) flush(stream);
}

void Output::flush(Stream& stream) {
  if (stream.line.empty()) return;
  const char last = stream.line.back();  // write() empties the line if the output is closed
  if (stream.file >= 0) write_to_file(stream);
  if (stream.file < 0 || format_.copy) {
    if (format_.label.empty())
      write(stream, stream.line);
    else
      write(stream, with_labels(stream, stream.line));
  }
  stream.before = last;
  stream.line.clear();
}

void Output::write_to_file(const Stream& stream) {
  std::string_view bytes = stream.line;
  while (!bytes.empty()) {
    const ssize_t n = ::write(stream.file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return report_lost(stream.source.is_error, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

std::string Output::with_labels(Stream& stream, std::string_view bytes) {
  const Source& source = stream.source;
  const std::string label =
      label_text(format_.label, {source.rank, source.spawned_job + 1, source.is_error}, format_.job_name);
  std::string text;
  Source& open = open_line_[to_error(stream) && !one_target_ ? 1 : 0];
  if (open.rank >= 0 && !stream.is(open)) text += '\n';
  char before = open.rank >= 0 && stream.is(open) ? stream.before : '\n';
  for (const char byte : bytes) {
    // A carriage return goes to the begin of the line; with a line feed after it, it ends the line.
    const bool begins = before == '\n' || (before == '\r' && byte != '\n');
    if (begins && byte != '\r') text += label;
    text += byte;
    before = byte;
  }
  open = source;
  if (before == '\n') open.rank = -1;
  return text;
}

void Output::close(Stream& stream) {
  flush(stream);
  // The next label begins a line.
  for (Source& open : open_line_)
    if (open.rank >= 0 && stream.is(open)) {
      open.rank = -1;
      write(stream, "\n");
    }
  if (stream.file >= 0 && ::close(stream.file) != 0 && errno != EINTR)
    report_lost(stream.source.is_error, errno);
  stream.file = -1;
  if (stream.source.fd >= 0) ::close(stream.source.fd);
  stream.source.fd = -1;
}

void Output::write(const Stream& stream, std::string_view bytes) {
  const int target = to_error(stream) ? STDERR_FILENO : STDOUT_FILENO;
  while (!bytes.empty()) {
    const ssize_t n = ::write(target, bytes.data(), bytes.size());
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {  // another process made this file description non-blocking
      pollfd event{target, POLLOUT, 0};
      ::poll(&event, 1, -1);
    } else if (errno != EINTR) {
      return close_pipes(to_error(stream), errno);
    }
  }
}

void Output::close_pipes(bool is_error, int error) {
  if (error != EPIPE) report_lost(is_error, error);
  // Closing the pipes sends SIGPIPE to the ranks, as a closed standard output does without mpiexec.
  for (Stream& stream : streams_) {
    if (to_error(stream) != is_error || stream.source.fd < 0) continue;
    ::close(stream.source.fd);
    stream.source.fd = -1;
    stream.line.clear();
  }
}

void Output::report_lost(bool is_error, int error) {
  if (lost_.exchange(true)) return;
  print_message(std::string("cannot write standard ") + (is_error ? "error" : "output") + " (" +
                std::strerror(error) + "): output of the ranks is lost");
}

void Output::report_deferred_errors() {
  for (const int target : {STDOUT_FILENO, STDERR_FILENO}) {
    const int copy = ::fcntl(target, F_DUPFD_CLOEXEC, 0);
    if (copy >= 0 && ::close(copy) != 0 && errno != EINTR) report_lost(target == STDERR_FILENO, errno);
  }
}

}  // namespace weft::mpiexec
