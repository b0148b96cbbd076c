// SPDX-License-Identifier: BSD-3-Clause
// Random sequences of calls in stream order, and graphs of them, against the same calls on the host.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stream/order_comm.hpp"
#include "stream/ordered_calls.hpp"

namespace weft::test::ordered {

using namespace weft::test::enqueued;

inline constexpr size_t kCallCount = std::size(kCalls);
/// State of random_below(), equal on all ranks.
inline unsigned random_state = 7;
inline unsigned random_below(unsigned limit) {
  random_state = random_state * 1664525u + 1013904223u;
  return (random_state >> 8) % limit;
}

/// Buffers of one call: `source` is copied to `in` in the stream before it, `out` to `result` after it.
struct Memory {
  explicit Memory(size_t bytes)
      : source(Kind::device, bytes, device),
        in(Kind::device, bytes, device),
        out(Kind::device, bytes, device),
        result(Kind::device, bytes, device) {}
  Buffer source, in, out, result;
};

/// Whether calls may use MPI_ANY_SOURCE.
inline bool wildcards = true;

inline size_t bytes_for(int n) {
  return sizeof(int) * 2 * static_cast<size_t>(n) * static_cast<size_t>(ranks);
}

inline void copy(const OrderComm& ordered, Buffer& to, const Buffer& from) {
  expect(driver().cuMemcpyDtoDAsync_v2(reinterpret_cast<weft::test::Address>(to.data()),
                                       reinterpret_cast<weft::test::Address>(from.data()), to.size(),
                                       ordered.stream) == 0,
         "cuMemcpyDtoDAsync");
}

/// Enqueues copies and a call, without any synchronisation.
inline void enqueue(const OrderComm& ordered, const NamedCall& call, Memory& memory, int n, bool capturing) {
  copy(ordered, memory.in, memory.source);
  copy(ordered, memory.out, memory.source);
  call.run({ordered.comm, ordered.grid, reinterpret_cast<int*>(memory.in.data()),
            reinterpret_cast<int*>(memory.out.data()), n, rank, ranks, capturing, wildcards});
  copy(ordered, memory.result, memory.out);
}

/// The result of the call on the host.
inline std::vector<char> reference(const Plain& plain, const NamedCall& call, const std::vector<char>& source,
                                   int n, bool capturing) {
  std::vector<char> in = source, out = source;
  call.run({plain.comm, plain.grid, reinterpret_cast<int*>(in.data()), reinterpret_cast<int*>(out.data()), n,
            rank, ranks, capturing});
  return out;
}

inline constexpr int kCounts[] = {1, 7, 100, 3000, 40000};
/// Sequences of calls, with one synchronisation at the end; each fourth is a graph, launched twice.
inline void sequences(const OrderComm& ordered, const Plain& plain, int rounds, int length) {
  struct Step {
    const NamedCall* call;
    int n;
    std::vector<char> source;
    std::unique_ptr<Memory> memory;
  };
  // Most rounds use memory again, since allocations and first messages take most of the time.
  std::map<int, std::vector<std::unique_ptr<Memory>>> unused;
  for (int round = 0; round < rounds; ++round) {
    if (round % 8 == 0) unused.clear();
    std::vector<Step> made;
    for (int i = 0; i < length; ++i) {
      const unsigned kind = round == 0 ? static_cast<unsigned>(i) % kCallCount : random_below(kCallCount);
      const int n = kCounts[random_below(round % 2 == 0 ? 4 : 5)];
      Step step{&kCalls[kind], n, pattern(bytes_for(n), rank, round * length + i), nullptr};
      auto& of_size = unused[n];
      if (of_size.empty()) of_size.push_back(std::make_unique<Memory>(bytes_for(n)));
      step.memory = std::move(of_size.back());
      of_size.pop_back();
      step.memory->source.write(step.source);
      made.push_back(std::move(step));
    }
    const bool captured = round % 4 == 3;
    std::optional<Graph> graph;
    if (captured) graph.emplace(ordered.stream);
    for (Step& step : made) enqueue(ordered, *step.call, *step.memory, step.n, captured);
    if (captured) graph->end(), graph->launch(), graph->launch();
    ordered.synchronize();
    for (Step& step : made)
      expect(step.memory->result.read() == reference(plain, *step.call, step.source, step.n, captured),
             std::string(step.call->name) + ", " + std::to_string(step.n) + " ints");
    for (Step& step : made) unused[step.n].push_back(std::move(step.memory));
  }
}

/// All calls in one graph, launched several times with other data.
inline void graphs(const OrderComm& ordered, const Plain& plain, int n, int launches) {
  std::vector<std::unique_ptr<Memory>> memory;
  for (size_t i = 0; i < kCallCount; ++i) memory.push_back(std::make_unique<Memory>(bytes_for(n)));
  {
    Graph graph(ordered.stream);
    for (size_t i = 0; i < kCallCount; ++i) enqueue(ordered, kCalls[i], *memory[i], n, true);
    graph.end();
    for (int launch = 0; launch < launches; ++launch) {
      for (size_t i = 0; i < kCallCount; ++i)
        memory[i]->source.write(pattern(bytes_for(n), rank, launch * 50 + static_cast<int>(i)));
      graph.launch();
      ordered.synchronize();
      for (size_t i = 0; i < kCallCount; ++i)
        expect(memory[i]->result.read() ==
                   reference(plain, kCalls[i], pattern(bytes_for(n), rank, launch * 50 + static_cast<int>(i)),
                             n, true),
               std::string(kCalls[i].name) + " in launch " + std::to_string(launch) + " of a graph");
    }
    for (int twice = 0; twice < 2; ++twice) graph.launch();  // without synchronisation
    ordered.synchronize();
  }
}

}  // namespace weft::test::ordered
