// SPDX-License-Identifier: BSD-3-Clause
// Output: forwards what the ranks write, whole lines at a time, in a thread of its own: a slow reader of
// mpiexec's output must not delay the launcher.
#pragma once
#include <atomic>
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
    bool is_error;  ///< goes to standard error
  };
  /// tag: begin every line with "[rank]<stdout>: ". prompts: show a line without end of rank 0 after a
  /// moment.
  Output(const std::vector<Source>& sources, bool tag, bool prompts);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Starts the thread. Call once, after the sentinel was started.
  [[nodiscard]] Status start();
  /// No writer is left: forward what is there, then end.
  void finish();
  /// Readable once everything is forwarded.
  [[nodiscard]] int done_fd() const { return done_; }
  /// True if output of the ranks could not be written (full disk, I/O error, closed descriptor), which was
  /// reported. False where only its reader has gone (EPIPE). Set before a rank can notice it.
  [[nodiscard]] bool lost() const { return lost_; }

 private:
  struct Stream {
    Source source;
    std::string line{};     ///< the beginning of a line whose end has not come
    bool mid_line = false;  ///< a piece of the present line is out already
  };

  void run();
  /// Reads once. False: nothing more will come now.
  bool read(Stream& stream);
  void forward(Stream& stream, std::string_view bytes);
  void flush(Stream& stream);
  void close(Stream& stream);
  void write(const Stream& stream, std::string_view bytes);
  /// Standard output or error cannot be written any more: lets the ranks notice it.
  void give_up(bool is_error, int error);
  void report_lost(bool is_error, int error);
  /// Asks file systems that store late (NFS) whether they could.
  void check_stored();
  [[nodiscard]] std::string tagged(Stream& stream, std::string_view bytes) const;

  std::vector<Stream> streams_;
  bool tag_, prompts_;
  int done_ = -1, wake_ = -1;
  std::atomic<bool> finishing_{false}, lost_{false};
  std::thread thread_;
};

}  // namespace weft::mpiexec
