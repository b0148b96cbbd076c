// SPDX-License-Identifier: BSD-3-Clause
// Item: a part of a random program that stays in flight for some steps: a collective or a batch of messages.
// Items complete the requests of all items that are in flight, together and in an order of each rank.
#pragma once
#include <mpi.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "reference/draw.hpp"

namespace mixed {

using randomized::Draw;

class Item {
 public:
  Item() = default;
  virtual ~Item() = default;
  Item(const Item&) = delete;
  Item& operator=(const Item&) = delete;
  /// Makes the calls; blocking calls have no request.
  virtual void start() = 0;
  /// Starts persistent requests again, with other data. All requests are complete.
  virtual void restart() = 0;
  [[nodiscard]] virtual bool persistent() const = 0;
  /// The requests of the last start, whose handles stay at these addresses.
  [[nodiscard]] virtual std::vector<MPI_Request*> requests() = 0;
  virtual void completed(size_t request, const MPI_Status& status) = 0;
  /// Compares the results of the last start with the expected ones, after the last request.
  virtual void check() = 0;
  [[nodiscard]] virtual std::string text() const = 0;
};

class Items {
 public:
  /// `pace`: of this rank alone.
  explicit Items(Draw& pace) : pace_(pace) {}
  /// Starts an item, which ends in step `due`.
  void add(std::unique_ptr<Item> item, int step, int due);
  /// Starts persistent items again that the seed chooses.
  void restart_some(int step, uint64_t seed);
  /// Completes some requests that happen to be ready.
  void test_some();
  /// Completes and frees all items that end in this step.
  void end(int step);
  [[nodiscard]] long started() const { return started_; }

 private:
  struct Entry {
    std::unique_ptr<Item> item;
    int begin, due;
    std::vector<MPI_Request*> requests;
    std::vector<size_t> open;  ///< indices of incomplete requests
  };
  struct Open {
    Entry* entry;
    size_t request;
  };
  void started(Entry& entry);
  [[nodiscard]] std::vector<Open> shuffled(const std::vector<Entry*>& entries);
  void wait_for(const std::vector<Entry*>& entries);
  size_t complete(std::vector<Open>& list, bool wait);
  void ended(const Open& open, MPI_Request request, const MPI_Status& status);

  Draw& pace_;
  std::deque<Entry> entries_;
  long started_ = 0;
};

}  // namespace mixed
