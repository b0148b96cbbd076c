// SPDX-License-Identifier: BSD-3-Clause
// Output: forwards the ranks' output in whole lines, or what is there after 100 ms. A separate thread does
// so, because a slow reader of mpiexec's output must not block the event loop.
#pragma once
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.hpp"

namespace weft::mpiexec {

class Output {
 public:
  struct Source {
    int fd;  ///< non-blocking; closed by Output
    int rank;
    bool is_error;        ///< goes to standard error
    int spawned_job = 0;  ///< number of the job, 0: the first one
  };
  struct Format {
    std::string label{};                      ///< before every line: a pattern (labels.hpp); empty: none
    std::string job_name{};                   ///< of labels
    bool merge = false;                       ///< standard error goes to standard output
    std::string output_file{}, error_file{};  ///< patterns (output_file.hpp); empty: no files
    bool copy = false;                        ///< output in files is also forwarded
  };
  Output(const std::vector<Source>& sources, Format format);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Creates the files and starts the forwarding thread. Call once, after start_supervisor().
  [[nodiscard]] Status start();
  /// Adds the sources of a job that starts later.
  void add(const std::vector<Source>& sources);
  /// Forwards the remaining output, then ends the thread. Precondition: no writer is left.
  void finish();
  /// Returns an event descriptor, readable after all output is forwarded.
  [[nodiscard]] int done_fd() const { return done_; }
  /// Returns true if output of the ranks was lost and reported (full disk, I/O error, closed descriptor).
  /// EPIPE does not count. Set before a rank can receive SIGPIPE.
  [[nodiscard]] bool lost() const { return lost_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Stream {
    Source source;
    int file = -1;              ///< closed with the source; -1: none
    std::string line{};         ///< incomplete line, not yet forwarded
    Clock::time_point since{};  ///< when the first byte of `line` arrived
    Clock::time_point last{};   ///< when the last byte arrived
    size_t burst = 0;           ///< bytes that arrived without a pause
    bool full_buffer = false;   ///< `line` ends where a buffer of the program was full: more follows
    char before = '\n';         ///< last byte that was forwarded
    /// Returns true if `line` is to be forwarded though it is incomplete.
    [[nodiscard]] bool is_late(Clock::time_point now) const;
    [[nodiscard]] bool is(const Source& other) const {
      return source.spawned_job == other.spawned_job && source.rank == other.rank &&
             source.is_error == other.is_error;
    }
  };

  void run();
  /// Reads once. Returns false if no more bytes are available now.
  bool read(Stream& stream);
  void forward(Stream& stream, std::string_view bytes);
  /// Milliseconds until an incomplete line is to be forwarded; -1: there is none.
  [[nodiscard]] int timeout() const;
  void flush(Stream& stream);
  void close(Stream& stream);
  void write(const Stream& stream, std::string_view bytes);
  void write_to_file(const Stream& stream);
  [[nodiscard]] bool to_error(const Stream& stream) const { return stream.source.is_error && !format_.merge; }
  /// Creates the file of a stream, if it has one. `ranks`: of its job.
  [[nodiscard]] Status create_file(Stream& stream, int ranks);
  /// Closes the ranks' pipes after standard output or error became unwritable.
  void close_pipes(bool is_error, int error);
  void report_lost(bool is_error, int error);
  /// Reports deferred write errors (NFS), which only close() returns.
  void report_deferred_errors();
  /// Puts labels before the lines, and ends the line of another stream that is open on the same target.
  [[nodiscard]] std::string with_labels(Stream& stream, std::string_view bytes);

  /// Moves added sources to streams_, and removes closed streams of jobs that started later.
  void update_streams();

  std::vector<Stream> streams_;
  size_t first_streams_;  ///< of the first job
  std::mutex added_mutex_;
  std::vector<Source> added_;
  Format format_;
  bool one_target_ = false;                                ///< standard output and error are the same file
  Source open_line_[2]{{-1, -1, false}, {-1, -1, false}};  ///< stream with an open line, of each target
  int done_ = -1, wake_ = -1;
  std::atomic<bool> finishing_{false}, lost_{false};
  std::thread thread_;
};

}  // namespace weft::mpiexec
