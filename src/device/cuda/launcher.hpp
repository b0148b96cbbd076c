// SPDX-License-Identifier: BSD-3-Clause
// Repeated launches of one kernel in Weft's streams, as a graph of one node with updated parameters. The
// kernel starts 1 to 2 us earlier than with cuLaunchKernel, and the call takes half the time (docs/adr/0018).
// Threading: the owner's lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/cuda/driver.hpp"

namespace weft::device::cuda {

/// State of work submitted to a kernel. `not_started`: the kernel will not execute the work; submit it to a
/// copy engine. `timed_out`: another GPU's kernel did not write its tiles in time; the work is incomplete.
enum class Outcome : uint8_t { pending, done, not_started, timed_out };

class Launcher {
 public:
  /// Prepares a kernel with one parameter of `bytes` bytes in the current context. Creates `graphs` graphs,
  /// each for one grid shape at a time, and uploads them in `stream`. May wait for running kernels, so call
  /// when the WorkQueue is created. Without graphs, launch() uses cuLaunchKernel.
  void open(Function function, size_t bytes, size_t graphs, Stream stream);
  void close();
  /// Launches the kernel; falls back to cuLaunchKernel. Launches of the same shape run in order, even in
  /// different streams, since they use the same graph.
  [[nodiscard]] Code launch(Stream stream, unsigned blocks, unsigned threads, void* parameter);

 private:
  struct CachedGraph {
    Graph graph = nullptr;
    GraphNode node = nullptr;
    GraphExec executable = nullptr;
    unsigned blocks = 0, threads = 0;  // shape of the last launch
    uint64_t used = 0;                 // value of launched_ at the last launch
  };
  [[nodiscard]] Code make(CachedGraph& graph, KernelNode& node, Stream stream) const;
  [[nodiscard]] CachedGraph* select_graph(unsigned blocks, unsigned threads);
  static void destroy(const CachedGraph& graph);

  Function function_ = nullptr;
  std::vector<CachedGraph> graphs_;
  uint64_t launched_ = 0;
};

}  // namespace weft::device::cuda
