// SPDX-License-Identifier: BSD-3-Clause
#include "launch/singleton/singleton.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "launch/cpus.hpp"
#include "launch/key.hpp"
#include "launch/names.hpp"
#include "launch/singleton/server.hpp"

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
  /// The processes that this one has started end with it.
  void abort(int code, std::string_view message) override {
    if (server_ != nullptr) server_->abort(code, message);
  }
  Status finalize() override { return server_ != nullptr ? server_->finalize() : Status(); }

  Result<Spawned> spawn(const SpawnRequest& request) override {
    WEFT_TRY(need_server());
    return server_->spawn(request);
  }
  Status publish(std::string_view name, std::string_view port) override {
    WEFT_TRY(need_server());
    return server_->publish(name, port);
  }
  Status unpublish(std::string_view name) override {
    if (server_ != nullptr) return server_->unpublish(name);
    return Error(Errc::name, "the name is not published by this process");
  }
  Result<std::string> lookup(std::string_view name) override { return lookup_on_host(name); }
  int universe_size() override { return std::max(1, static_cast<int>(allowed_cpus().size())); }

 private:
  Status need_server() {
    if (server_ != nullptr) return {};
    auto started = start_server();
    if (!started) return std::move(started).error();
    server_ = std::move(*started);
    return {};
  }

  std::unique_ptr<Exchange> server_;  // started when it is needed
  Job job_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace

std::unique_ptr<Exchange> create() { return std::make_unique<Singleton>(); }

}  // namespace weft::launch::singleton
