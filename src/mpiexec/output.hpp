// SPDX-License-Identifier: BSD-3-Clause
// Output: forwards the ranks' output in whole lines. A separate thread does so, because a slow reader of
// mpiexec's output must not block the event loop.
#pragma once
#include <atomic>
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
    bool tag = false;                         ///< begin every line with "[rank]<stdout>: "
    bool timestamp = false;                   ///< begin every line with the time
    bool merge = false;                       ///< standard error goes to standard output
    std::string output_file{}, error_file{};  ///< patterns (output_file.hpp); empty: no files
    bool copy = false;                        ///< output in files is also forwarded
    int prompting_rank = -1;  ///< an incomplete line of this rank is forwarded after kPromptTimeoutMs
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
  struct Stream {
    Source source;
    int file = -1;          ///< closed with the source; -1: none
    std::string line{};     ///< incomplete line, not yet forwarded
    bool mid_line = false;  ///< part of the current line is already forwarded
  };

  void run();
  /// Reads once. Returns false if no more bytes are available now.
  bool read(Stream& stream);
  void forward(Stream& stream, std::string_view bytes);
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
  [[nodiscard]] std::string with_prefix(Stream& stream, std::string_view bytes) const;

  /// Moves added sources to streams_, and removes closed streams of jobs that started later.
  void update_streams();

  std::vector<Stream> streams_;
  size_t first_streams_;  ///< of the first job
  std::mutex added_mutex_;
  std::vector<Source> added_;
  Format format_;
  size_t prompting_ = 0;  ///< stream of the prompting rank
  int done_ = -1, wake_ = -1;
  std::atomic<bool> finishing_{false}, lost_{false};
  std::thread thread_;
};

}  // namespace weft::mpiexec
