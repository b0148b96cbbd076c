// SPDX-License-Identifier: BSD-3-Clause
// Name server: the names that the jobs of this mpiexec have published (MPI_Publish_name). Each has a
// listening socket, at which any process of the user on this host asks for its value (launch/names.hpp).
#pragma once
#include <map>
#include <string>

#include "base/result.hpp"

namespace weft::mpiexec {

class NameServer {
 public:
  NameServer() = default;
  ~NameServer();
  NameServer(const NameServer&) = delete;
  NameServer& operator=(const NameServer&) = delete;

  /// Errc::name: a job of the user on this host publishes the name already.
  [[nodiscard]] Status publish(const std::string& name, const std::string& port);
  /// False: this mpiexec does not publish the name.
  bool unpublish(const std::string& name);
  /// The value of a name of this mpiexec, null if there is none.
  [[nodiscard]] const std::string* find(const std::string& name) const;

  /// Readable when a request has arrived; -1: nothing was ever published.
  [[nodiscard]] int descriptor() const { return epoll_; }
  /// Answers the requests that have arrived; does not wait.
  void serve();

 private:
  struct Name {
    int listener;
    std::string port;
  };
  std::map<std::string, Name> names_;
  int epoll_ = -1;
};

}  // namespace weft::mpiexec
