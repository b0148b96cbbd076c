// SPDX-License-Identifier: BSD-3-Clause
#include "launch/store/store.hpp"

#include <optional>
#include <set>
#include <utility>

#include "launch/hosts.hpp"
#include "launch/key.hpp"

namespace weft::launch::store {

namespace {

std::optional<Store>& selected() {
  static std::optional<Store> store;
  return store;
}

class Client final : public Exchange {
 public:
  explicit Client(Store store) : store_(std::move(store)) {
    job_.rank = store_.rank;
    job_.size = store_.size;
    job_.id = store_.job;
    job_.launcher = "store";
    job_.launcher_version = "key-value store of the program";
  }

  Status find_local_ranks() { return gather_hosts(*this, job_); }

  const Job& job() const override { return job_; }

  Status put(std::string_view key, std::string_view value) override {
    WEFT_TRY(check_key(key));
    const auto [where, added] = put_keys_.emplace(key);
    if (!added) return Error(Errc::arg, "key '" + *where + "' was put twice");
    return store_.put(*where, value);
  }

  Result<std::string> get(std::string_view key, int owner) override {
    WEFT_TRY(check_key(key));
    return store_.get(std::string(key), owner);
  }

  /// get() waits for the owner.
  Status share() override { return {}; }

  Status fence() override {
    const std::string prefix = "fence." + std::to_string(fences_++) + ".";
    WEFT_TRY(put(prefix + std::to_string(job_.rank), ""));
    for (int rank = 0; rank < job_.size; ++rank)
      if (auto reached = get(prefix + std::to_string(rank), rank); !reached)
        return std::move(reached).error();
    return {};
  }

  /// The program that has started the processes notices the exit of this one.
  void abort(int, std::string_view) override {}
  Status finalize() override { return {}; }

 private:
  Store store_;
  Job job_;
  std::set<std::string, std::less<>> put_keys_;
  int fences_ = 0;
};

}  // namespace

void use(Store store) { selected() = std::move(store); }

bool is_available() { return selected().has_value(); }

Result<std::unique_ptr<Exchange>> connect() { return connect_to(*selected()); }

Result<std::unique_ptr<Exchange>> connect_to(Store store) {
  auto client = std::make_unique<Client>(std::move(store));
  WEFT_TRY(client->find_local_ranks());
  return std::unique_ptr<Exchange>(std::move(client));
}

}  // namespace weft::launch::store
