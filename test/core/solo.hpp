// SPDX-License-Identifier: BSD-3-Clause
// Solo: an instance of one process without a launcher, for unit tests.
#pragma once
#include <memory>

#include "core/instance.hpp"

namespace weft::core {

class SoloExchange : public launch::Exchange {
 public:
  [[nodiscard]] const launch::Job& job() const override { return job_; }
  [[nodiscard]] Status put(std::string_view, std::string_view) override { return {}; }
  [[nodiscard]] Result<std::string> get(std::string_view, int) override {
    return Error(Errc::arg, "nobody put it");
  }
  [[nodiscard]] Status fence() override { return {}; }
  void abort(int, std::string_view) override {}
  [[nodiscard]] Status finalize() override { return {}; }

 protected:
  launch::Job job_;
};

/// The one instance of the test program.
inline Instance& solo() {
  static Instance instance(std::make_unique<SoloExchange>());
  return instance;
}

/// Holds the instance lock as an entry point does with MPI_THREAD_MULTIPLE.
class Threaded {
 public:
  Threaded() {
    solo().threaded = true;
    solo().lock.lock();
  }
  ~Threaded() {
    solo().lock.unlock();
    solo().threaded = false;
  }
};

}  // namespace weft::core
