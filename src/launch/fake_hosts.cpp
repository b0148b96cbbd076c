// SPDX-License-Identifier: BSD-3-Clause
#include "launch/fake_hosts.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/config.hpp"
#include "launch/hosts.hpp"

namespace weft::launch {
namespace {

config::Size fake_hosts{"fake_hosts", 1, 1, 4096,
                        "Number of simulated hosts into which the ranks of one machine are split, for tests "
                        "of inter-host paths."};

config::Size first_fake_host{"first_fake_host", 0, 0, 4096,
                             "Number of the first simulated host: jobs on one machine with other numbers are "
                             "on other hosts, for tests of connected jobs."};

/// Forwards all calls except job().
class FakeHosts final : public Exchange {
 public:
  FakeHosts(std::unique_ptr<Exchange> inner, int hosts) : inner_(std::move(inner)), job_(inner_->job()) {
    job_.host_of_rank.resize(static_cast<size_t>(job_.size));
    for (int rank = 0; rank < job_.size; ++rank)
      job_.host_of_rank[static_cast<size_t>(rank)] = fake_host_of(rank, job_.size, hosts);
    job_.machine_size = job_.local_size;
    set_local_rank(job_);
    job_.launcher += ", split into " + std::to_string(hosts) + " fake hosts";
  }
  const Job& job() const override { return job_; }
  Status put(std::string_view key, std::string_view value) override { return inner_->put(key, value); }
  Result<std::string> get(std::string_view key, int owner) override { return inner_->get(key, owner); }
  Status share() override { return inner_->share(); }
  Status fence() override { return inner_->fence(); }
  std::optional<int> dead_process() override { return inner_->dead_process(); }
  void abort(int code, std::string_view message) override { inner_->abort(code, message); }
  bool abort_is_reported() const override { return inner_->abort_is_reported(); }
  Status finalize() override { return inner_->finalize(); }
  Result<Spawned> spawn(const SpawnRequest& request) override { return inner_->spawn(request); }
  std::optional<std::string> parent_value() override { return inner_->parent_value(); }
  Status publish(std::string_view name, std::string_view port) override {
    return inner_->publish(name, port);
  }
  Status unpublish(std::string_view name) override { return inner_->unpublish(name); }
  Result<std::string> lookup(std::string_view name) override { return inner_->lookup(name); }
  int universe_size() override { return inner_->universe_size(); }

 private:
  std::unique_ptr<Exchange> inner_;
  Job job_;
};

}  // namespace

int fake_host_of(int rank, int size, int hosts) {
  const int block = size / hosts, longer = size % hosts, head = longer * (block + 1);
  return rank < head ? rank / (block + 1) : longer + (rank - head) / block;
}

std::string host_name(const Job& job) {
  const auto first = static_cast<int>(static_cast<size_t>(first_fake_host));
  const int number = first + (job.machine_size != 0 ? job.host_of_rank[static_cast<size_t>(job.rank)] : 0);
  return number == 0 ? this_host() : this_host() + "#" + std::to_string(number);
}

Result<std::unique_ptr<Exchange>> split_hosts(std::unique_ptr<Exchange> exchange) {
  const Job& job = exchange->job();
  const int hosts = std::min(static_cast<int>(fake_hosts), job.size);
  if (hosts == 1) return exchange;
  if (job.local_size != job.size)
    return Error(Errc::other, "WEFT_FAKE_HOSTS is set, but the job spans several hosts already: unset it");
  return std::unique_ptr<Exchange>(std::make_unique<FakeHosts>(std::move(exchange), hosts));
}

}  // namespace weft::launch
