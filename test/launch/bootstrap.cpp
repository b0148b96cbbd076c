// SPDX-License-Identifier: BSD-3-Clause
// Start-up of thousands of simulated ranks over the key-value exchange: messages per rank and per host daemon
// must not grow faster than log n. Models of PMIx (values are requested from the owner's host on demand) and
// of PMI-1 (a fence copies all values to all hosts). As in Weft, the first rank of a host puts the name of
// its shared memory, every rank its network address, and addresses are read at first contact.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launch/hosts.hpp"
#include "launch/launch.hpp"

namespace weft::launch {
namespace {

constexpr int kRanksPerHost = 64;
constexpr size_t kAddressBytes = 300;  // address of a UCX worker with three devices

struct Count {
  long messages = 0, bytes = 0;
  void add(size_t length) {
    ++messages;
    bytes += static_cast<long>(length);
  }
};

enum class Kind { on_demand, broadcast };

/// Daemons of all hosts and their traffic.
struct Launcher {
  Launcher(Kind kind, int ranks)
      : kind(kind), size(ranks), hosts((ranks + kRanksPerHost - 1) / kRanksPerHost), host(hosts) {}
  struct Host {
    std::map<std::string, std::string, std::less<>> values, cached;
    Count carried;    // between daemons, both directions
    long unsent = 0;  // bytes put since the last fence
  };
  Host& of(int rank) { return host[static_cast<size_t>(rank / kRanksPerHost)]; }
  /// PMI-1: copies the new values of all hosts to every host.
  void fence() {
    long all = 0;
    for (Host& one : host) all += std::exchange(one.unsent, 0);
    for (Host& one : host) one.carried.add(static_cast<size_t>(all));
  }
  Kind kind;
  int size, hosts;
  std::vector<Host> host;
};

class Rank final : public Exchange {
 public:
  Rank(Launcher& launcher, int rank) : launcher_(launcher) {
    job_.rank = rank;
    job_.size = launcher.size;
    job_.local_rank = rank % kRanksPerHost;
  }
  const Job& job() const override { return job_; }
  Status put(std::string_view key, std::string_view value) override {
    own.add(key.size() + value.size());
    Launcher::Host& host = launcher_.of(job_.rank);
    host.unsent += static_cast<long>(key.size() + value.size());
    host.values.emplace(key, value);
    return {};
  }
  Result<std::string> get(std::string_view key, int owner) override {
    Launcher::Host &mine = launcher_.of(job_.rank), &theirs = launcher_.of(owner);
    const auto found = theirs.values.find(key);
    if (found == theirs.values.end()) return Error(Errc::arg, "no such key");
    const size_t length = key.size() + found->second.size();
    own.add(length);
    if (launcher_.kind == Kind::on_demand && &mine != &theirs && mine.cached.emplace(key, "").second) {
      for (Launcher::Host* host : {&mine, &theirs}) host->carried.add(length);  // request and reply
      own.add(length);
    }
    return found->second;
  }
  Status share() override {
    own.add(8);
    return {};
  }
  Status fence() override { return share(); }
  void abort(int, std::string_view) override {}
  Status finalize() override { return {}; }

  Count own;  ///< between this rank and its daemon, and requests sent on its behalf

 private:
  Launcher& launcher_;
  Job job_;
};

/// Peers of a dissemination barrier and of recursive doubling, as in a program with collectives.
std::set<int> peers_of(int rank, int size) {
  std::set<int> peers;
  for (int distance = 1; distance < size; distance *= 2) {
    peers.insert((rank + distance) % size);
    peers.insert((rank - distance + size) % size);
    if ((rank ^ distance) < size) peers.insert(rank ^ distance);
  }
  return peers;
}

struct Figures {
  double messages, bytes;            // of the busiest rank
  double host_messages, host_bytes;  // of the busiest host, per rank
};

Figures start(Kind kind, int size) {
  Launcher launcher(kind, size);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<Rank>(launcher, rank));
  const std::string address(kAddressBytes, 'a');
  for (auto& rank : ranks) {
    const Job& job = rank->job();
    if (job.local_rank == 0) {
      EXPECT_TRUE(rank->put("shm." + std::to_string(job.rank), "weft-shm-name"));
    }
    EXPECT_TRUE(rank->put("net." + std::to_string(job.rank), address));
    EXPECT_TRUE(rank->share());
  }
  if (kind == Kind::broadcast) launcher.fence();
  for (auto& rank : ranks) {
    const Job& job = rank->job();
    const int leader = job.rank - job.local_rank;
    EXPECT_TRUE(rank->get("shm." + std::to_string(leader), leader));
    for (const int peer : peers_of(job.rank, size))
      if (peer / kRanksPerHost != job.rank / kRanksPerHost) {
        EXPECT_TRUE(rank->get("net." + std::to_string(peer), peer));
      }
  }
  Figures figures{};
  for (const auto& rank : ranks) {
    figures.messages = std::max(figures.messages, static_cast<double>(rank->own.messages));
    figures.bytes = std::max(figures.bytes, static_cast<double>(rank->own.bytes));
  }
  for (const Launcher::Host& host : launcher.host) {
    figures.host_messages =
        std::max(figures.host_messages, static_cast<double>(host.carried.messages) / kRanksPerHost);
    figures.host_bytes =
        std::max(figures.host_bytes, static_cast<double>(host.carried.bytes) / kRanksPerHost);
  }
  return figures;
}

/// Measures and prints 64 to 32768 ranks.
std::map<int, Figures> grow(Kind kind) {
  std::map<int, Figures> all;
  for (int size = 64; size <= 32768; size *= 8) {
    const Figures f = all[size] = start(kind, size);
    std::printf(
        "%6d ranks: a rank %5.0f messages %7.0f bytes; a host's daemon, by rank, %6.1f messages %9.0f "
        "bytes\n",
        size, f.messages, f.bytes, f.host_messages, f.host_bytes);
  }
  return all;
}

TEST(Bootstrap, OnDemandGrowsLogarithmically) {
  for (const auto& [size, figures] : grow(Kind::on_demand)) {
    const double steps = std::log2(size);
    EXPECT_LE(figures.messages, 4 + 6 * steps) << size;
    EXPECT_LE(figures.bytes, (4 + 6 * steps) * (kAddressBytes + 16)) << size;
    EXPECT_LE(figures.host_messages, 6 * steps) << size;
    EXPECT_LE(figures.host_bytes, 6 * steps * (kAddressBytes + 16)) << size;
  }
}

TEST(Bootstrap, Pmi1GrowsLogarithmicallyPerRankAndLinearlyPerHost) {
  const auto all = grow(Kind::broadcast);
  for (const auto& [size, figures] : all) {
    EXPECT_LE(figures.messages, 4 + 3 * std::log2(size)) << size;
    EXPECT_LE(figures.bytes, (4 + 3 * std::log2(size)) * (kAddressBytes + 16)) << size;
  }
  // This growth is inherent in PMI-1, and the reason to prefer PMIx (docs/scale.md).
  EXPECT_GT(all.at(32768).host_bytes, 100 * all.at(64).host_bytes);
}

/// gather_hosts() costs one get per rank.
TEST(Hosts, GatherHosts) {
  Launcher launcher(Kind::broadcast, 2 * kRanksPerHost);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < launcher.size; ++rank) ranks.push_back(std::make_unique<Rank>(launcher, rank));
  for (auto& rank : ranks)
    if (const int self = rank->job().rank; self != 5) {
      EXPECT_TRUE(rank->put("host." + std::to_string(self), self % 2 == 0 ? "even" : "odd"));
    }
  Job job = ranks[5]->job();
  ASSERT_TRUE(gather_hosts(*ranks[5], job));
  EXPECT_EQ(job.host_of_rank.size(), 2U * kRanksPerHost);
  EXPECT_EQ(job.local_size, 1);  // this machine is neither "even" nor "odd"
  EXPECT_EQ(job.host_of_rank[0], job.host_of_rank[2]);
  EXPECT_NE(job.host_of_rank[0], job.host_of_rank[1]);
  EXPECT_EQ(ranks[5]->own.messages, 1 + 1 + launcher.size);
}

}  // namespace
}  // namespace weft::launch
