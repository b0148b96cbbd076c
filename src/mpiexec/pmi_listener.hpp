// SPDX-License-Identifier: BSD-3-Clause
// PMI listener: the socket at which a process of a job reaches mpiexec if a shell or a wrapper has closed the
// descriptor that it inherited (launch/pmi/address.hpp).
#pragma once
#include <sys/types.h>

#include <map>
#include <vector>

#include "base/result.hpp"
#include "launch/pmi/address.hpp"
#include "launch/pmi/wire.hpp"

namespace weft::mpiexec {

class PmiListener {
 public:
  /// A process of the user that knows the secret, and asks to be one of the job's.
  struct Request {
    int process;
    int fd;     ///< owned by the receiver
    pid_t pid;  ///< 0: unknown
  };

  PmiListener() = default;
  ~PmiListener();
  PmiListener(const PmiListener&) = delete;
  PmiListener& operator=(const PmiListener&) = delete;

  [[nodiscard]] Status open();
  /// Closes the socket in a child process.
  void close();
  /// The socket's name and secret.
  [[nodiscard]] const launch::pmi::Address& address() const { return address_; }
  /// Readable when a request has arrived.
  [[nodiscard]] int descriptor() const { return epoll_; }
  /// Returns the requests that have arrived; does not wait.
  [[nodiscard]] std::vector<Request> take();

 private:
  void accept();
  /// False: the connection has ended or is none of this job.
  bool read(int fd, std::vector<Request>& complete);

  launch::pmi::Address address_;
  int epoll_ = -1, listener_ = -1;
  std::map<int, launch::pmi::LineBuffer> pending_;  // connections without a complete request
};

}  // namespace weft::mpiexec
