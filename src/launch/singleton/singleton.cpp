// SPDX-License-Identifier: BSD-3-Clause
#include "launch/singleton/singleton.hpp"

#include <time.h>
#include <unistd.h>

#include <map>

#include "launch/key.hpp"

namespace weft::launch::singleton {

namespace {

/// Unique among the running jobs of a host: pid, and the time for reused pids.
std::string unique_id() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  char text[64];
  snprintf(text, sizeof text, "single-%d-%llx%08lx", static_cast<int>(::getpid()),
           static_cast<unsigned long long>(now.tv_sec), static_cast<unsigned long>(now.tv_nsec));
  return text;
}

class Singleton final : public Exchange {
 public:
  Singleton() {
    job_.id = unique_id();
    job_.host_of_rank = {0};
    job_.singleton = true;
    job_.launcher = "singleton";
  }
  const Job& job() const override { return job_; }

  Status put(std::string_view key, std::string_view value) override {
    WEFT_TRY(check_key(key));
    auto [where, added] = values_.emplace(key, value);
    if (!added) return Error(Errc::arg, "key '" + where->first + "' was put twice");
    return {};
  }

  Result<std::string> get(std::string_view key, int) override {
    auto where = values_.find(key);
    if (where == values_.end()) return Error(Errc::arg, "no process put the key '" + std::string(key) + "'");
    return where->second;
  }

  Status fence() override { return {}; }
  void abort(int, std::string_view) override {}
  Status finalize() override { return {}; }

 private:
  Job job_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace

std::unique_ptr<Exchange> create() { return std::make_unique<Singleton>(); }

}  // namespace weft::launch::singleton
