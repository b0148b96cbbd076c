// SPDX-License-Identifier: BSD-3-Clause
#include "api/summary.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/counters.hpp"
#include "base/scope.hpp"
#include "base/stats.hpp"
#include "core/instance.hpp"
#include "p2p/p2p.hpp"

namespace weft::api {
namespace {

const config::Scopes of_job{config::Scope::job, {"stats"}};  // the summary is collective

constexpr size_t kMaxCalls = 64;  // of a rank; the shortest ones beyond are summed up
constexpr size_t kCallRows = 12;  // lines of calls
constexpr size_t kRankRows = 16;  // lines of ranks: all, or the ends of the order by time in MPI
constexpr size_t kCallNameBytes = 40;

/// Counters of waiting time, with the headings of their columns and the text that explains them.
struct Cause {
  const char *counter, *heading, *text;
};
constexpr Cause kCauses[] = {{"p2p.late_sender_time", "sender", "a late sender"},
                             {"p2p.late_receiver_time", "receiver", "a late receiver"},
                             {"coll.wait_time", "collective", "a collective"},
                             {"window.wait_time", "window", "a window"},
                             {"core.wait_time", "other", "several requests and others"}};
constexpr size_t kCauseCount = std::size(kCauses);

struct CallSum {
  char name[kCallNameBytes];
  uint64_t calls, bytes, ns;
};
/// Sums of a rank, as sent to rank 0.
struct RankSums {
  int32_t host;
  uint32_t call_count;
  uint64_t elapsed_ns, calls, bytes, ns;
  uint64_t waits[kCauseCount];
  CallSum call[kMaxCalls];
};

RankSums own_sums(const core::Instance& instance) {
  RankSums sums{};
  sums.host = instance.host;
  sums.elapsed_ns = stats::elapsed_ns();
  for (const stats::Call& call : stats::calls()) {
    sums.calls += call.calls;
    sums.bytes += call.bytes;
    sums.ns += call.ns;
    const bool fits = sums.call_count < kMaxCalls - 1;
    CallSum& to = sums.call[fits ? sums.call_count : kMaxCalls - 1];
    std::snprintf(to.name, sizeof to.name, "%s", fits ? call.name : "other calls");
    to.calls += call.calls;
    to.bytes += call.bytes;
    to.ns += call.ns;
    if (fits || sums.call_count == kMaxCalls - 1)
      sums.call_count = std::min<uint32_t>(sums.call_count + 1, kMaxCalls);
  }
  for (size_t i = 0; i < kCauseCount; ++i)
    if (const auto* counter = counters::find(kCauses[i].counter); counter != nullptr)
      sums.waits[i] = counter->value();
  return sums;
}

/// Returns the sums of all ranks at rank 0; of others, nothing.
std::vector<RankSums> gather(core::Communicator& world) {
  const int tag = world.next_collective_tag();
  core::Instance& instance = world.instance;
  std::vector<RankSums> all(world.rank() == 0 ? static_cast<size_t>(world.size()) : 1);
  all[0] = own_sums(instance);
  if (world.rank() != 0) {
    p2p::Transfer out(core::Request::Kind::send);
    p2p::post_send(out, p2p::host_bytes(all.data(), sizeof(RankSums)), 0, tag, world, p2p::SendMode::standard,
                   core::Channel::collective);
    core::wait(instance, out);
    return {};
  }
  for (int rank = 1; rank < world.size(); ++rank) {
    p2p::Transfer in(core::Request::Kind::receive);
    p2p::post_receive(in, p2p::host_bytes(&all[static_cast<size_t>(rank)], sizeof(RankSums)), rank, tag,
                      world, core::Channel::collective);
    core::wait(instance, in);
    if (!in.outcome.ok()) return {};
  }
  return all;
}

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string time_text(uint64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1'000'000) return format("%.1f us", value * 1e-3);
  return ns < 1'000'000'000 ? format("%.1f ms", value * 1e-6) : format("%.2f s", value * 1e-9);
}

std::string bytes_text(uint64_t bytes) {
  auto value = static_cast<double>(bytes);
  const char* const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(units); ++unit) value /= 1000;
  return format(unit == 0 ? "%.0f %s" : "%.3g %s", value, units[unit]);
}

double percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

/// One function on all ranks.
struct Total {
  std::string name;
  uint64_t calls = 0, bytes = 0, ns = 0, longest_ns = 0;
  int longest_rank = 0;
};

std::vector<Total> totals(const std::vector<RankSums>& all) {
  std::map<std::string, Total> by_name;
  for (size_t rank = 0; rank < all.size(); ++rank)
    for (uint32_t i = 0; i < std::min<uint32_t>(all[rank].call_count, kMaxCalls); ++i) {
      const CallSum& call = all[rank].call[i];
      Total& total = by_name[std::string(call.name, strnlen(call.name, sizeof call.name))];
      total.calls += call.calls;
      total.bytes += call.bytes;
      total.ns += call.ns;
      if (call.ns >= total.longest_ns)
        total.longest_ns = call.ns, total.longest_rank = static_cast<int>(rank);
    }
  std::vector<Total> sorted;
  for (auto& [name, total] : by_name) {
    total.name = name;
    sorted.push_back(std::move(total));
  }
  std::sort(sorted.begin(), sorted.end(), [](const Total& a, const Total& b) { return a.ns > b.ns; });
  return sorted;
}

std::string call_lines(const std::vector<RankSums>& all, uint64_t mpi_ns) {
  std::string text = format("  %-28s %12s %10s %10s %7s  %s\n", "call", "calls", "bytes", "time", "of MPI",
                            "longest on a rank");
  std::vector<Total> calls = totals(all);
  if (calls.size() > kCallRows) {
    Total rest{.name = format("%zu other functions", calls.size() - kCallRows + 1)};
    for (size_t i = kCallRows - 1; i < calls.size(); ++i) {
      rest.calls += calls[i].calls;
      rest.bytes += calls[i].bytes;
      rest.ns += calls[i].ns;
    }
    calls.resize(kCallRows - 1);
    calls.push_back(std::move(rest));
  }
  for (const Total& call : calls) {
    text += format("  %-28s %12llu %10s %10s %5.1f %%", call.name.c_str(),
                   static_cast<unsigned long long>(call.calls), bytes_text(call.bytes).c_str(),
                   time_text(call.ns).c_str(), percent(call.ns, mpi_ns));
    if (call.longest_ns != 0)
      text += format("  %s on rank %d", time_text(call.longest_ns).c_str(), call.longest_rank);
    text += "\n";
  }
  return text;
}

std::string wait_line(const std::vector<RankSums>& all, uint64_t mpi_ns) {
  std::string text;
  for (size_t i = 0; i < kCauseCount; ++i) {
    uint64_t ns = 0;
    for (const RankSums& rank : all) ns += rank.waits[i];
    text += format("%s%s %s (%.1f %%)", i == 0 ? "" : ", ", kCauses[i].text, time_text(ns).c_str(),
                   percent(ns, mpi_ns));
  }
  return "  waits for: " + text + "\n";
}

std::string rank_lines(const std::vector<RankSums>& all) {
  std::vector<size_t> order(all.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::string note;
  if (order.size() > kRankRows) {
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return all[a].ns > all[b].ns; });
    note = format(": the %zu with the most and the %zu with the least time in MPI", kRankRows / 2,
                  kRankRows / 2);
    order.erase(order.begin() + kRankRows / 2, order.end() - kRankRows / 2);
  }
  std::string text = format("  %-6s %10s %7s %12s %10s", "rank", "in MPI", "share", "calls", "bytes");
  for (const Cause& cause : kCauses) text += format(" %10s", cause.heading);
  text += "  (waits)" + note + "\n";
  for (const size_t rank : order) {
    const RankSums& sums = all[rank];
    text += format("  %-6zu %10s %5.1f %% %12llu %10s", rank, time_text(sums.ns).c_str(),
                   percent(sums.ns, sums.elapsed_ns), static_cast<unsigned long long>(sums.calls),
                   bytes_text(sums.bytes).c_str());
    for (const uint64_t wait : sums.waits) text += format(" %10s", time_text(wait).c_str());
    text += "\n";
  }
  return text;
}

std::string summary(const std::vector<RankSums>& all) {
  uint64_t elapsed = 0, longest = 0, mpi = 0;
  std::map<int, int> hosts;
  for (const RankSums& rank : all) {
    elapsed += rank.elapsed_ns;
    longest = std::max(longest, rank.elapsed_ns);
    mpi += rank.ns;
    ++hosts[rank.host];
  }
  const std::string ranks = all.size() == 1 ? "1 rank" : std::to_string(all.size()) + " ranks";
  const std::string on = hosts.size() == 1 ? "1 host" : std::to_string(hosts.size()) + " hosts";
  return "weft: summary of " + ranks + " on " + on + ": " + time_text(longest) +
         " from MPI_Init to MPI_Finalize, " + format("%.1f %%", percent(mpi, elapsed)) + " of it in MPI\n" +
         call_lines(all, mpi) + wait_line(all, mpi) + rank_lines(all);
}

}  // namespace

void print_summary(core::Communicator& world) {
  if (!stats::enabled() || !world.instance.failures.check(*world.group).ok()) return;
  const std::vector<RankSums> all = gather(world);
  if (all.empty()) return;
  const std::string text = summary(all);
  std::fflush(stdout);
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = ::write(STDERR_FILENO, text.data() + at, text.size() - at);
    if (written <= 0) return;
    at += static_cast<size_t>(written);
  }
}

}  // namespace weft::api
