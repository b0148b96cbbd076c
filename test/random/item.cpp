// SPDX-License-Identifier: BSD-3-Clause
#include "random/item.hpp"

#include <algorithm>

#include "coll/expect.hpp"
#include "reference/completion.hpp"

namespace mixed {

using randomized::Completion;

void Items::started(Entry& entry) {
  ++started_;
  entry.requests = entry.item->requests();
  entry.open.clear();
  for (size_t i = 0; i < entry.requests.size(); ++i) entry.open.push_back(i);
  if (entry.open.empty()) entry.item->check();
}

void Items::add(std::unique_ptr<Item> item, int step, int due) {
  Entry& entry = entries_.emplace_back(Entry{std::move(item), step, due, {}, {}});
  entry.item->start();
  started(entry);
}

void Items::restart_some(int step, uint64_t seed) {
  for (Entry& entry : entries_) {
    if (!entry.item->persistent() || randomized::mix(seed, entry.begin, step, 3) != 0) continue;
    // Several starts in quick succession reach the paths of calls that repeat.
    const int most = randomized::mix(seed, entry.begin, step, 12) == 0 ? 20 : 4;
    for (int n = 1 + randomized::mix(seed, entry.begin, step + 1, most); n > 0; --n) {
      wait_for({&entry});
      entry.item->restart();
      started(entry);
    }
  }
}

std::vector<Items::Open> Items::shuffled(const std::vector<Entry*>& entries) {
  std::vector<Open> list;
  for (Entry* entry : entries)
    for (const size_t request : entry->open) list.push_back({entry, request});
  for (size_t i = list.size(); i > 1; --i)
    std::swap(list[i - 1], list[static_cast<size_t>(pace_.below(static_cast<int>(i)))]);
  return list;
}

void Items::ended(const Open& open, MPI_Request request, const MPI_Status& status) {
  *open.entry->requests[open.request] = request;
  std::erase(open.entry->open, open.request);
  open.entry->item->completed(open.request, status);
  if (open.entry->open.empty()) open.entry->item->check();
}

/// Calls one function on the requests of a list, and takes the completed ones out of it.
size_t Items::complete(std::vector<Open>& list, bool wait) {
  std::vector<MPI_Request> requests;
  for (const Open& open : list) requests.push_back(*open.entry->requests[open.request]);
  const auto way = static_cast<Completion>(pace_.below(4) + (wait ? 0 : 4));
  std::snprintf(expect::situation, sizeof expect::situation, "completion %d of %zu requests from: %s",
                static_cast<int>(way), list.size(), list[0].entry->item->text().c_str());
  std::vector<randomized::Completed> done;
  expect::success(randomized::complete(requests, way, done));
  for (const auto& [index, status] : done) ended(list[index], requests[index], status);
  for (auto one = done.rbegin(); one != done.rend(); ++one)
    list.erase(list.begin() + static_cast<ptrdiff_t>(one->index));
  return done.size();
}

void Items::wait_for(const std::vector<Entry*>& entries) {
  for (std::vector<Open> list = shuffled(entries); !list.empty();) complete(list, !pace_.one_in(3));
}

void Items::test_some() {
  std::vector<Entry*> all;
  for (Entry& entry : entries_) all.push_back(&entry);
  std::vector<Open> list = shuffled(all);
  if (list.empty()) return;
  list.resize(1 + static_cast<size_t>(pace_.below(static_cast<int>(list.size()))));
  complete(list, false);
}

void Items::end(int step) {
  std::vector<Entry*> due;
  for (Entry& entry : entries_)
    if (entry.due <= step) due.push_back(&entry);
  wait_for(due);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.due <= step; });
}

}  // namespace mixed
