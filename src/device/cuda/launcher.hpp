// SPDX-License-Identifier: BSD-3-Clause
// A kernel that is launched again and again in streams of Weft's own. It goes out as a graph of one node,
// whose parameter is set anew for each launch: it begins 1 to 2 us earlier than by cuLaunchKernel, and the
// CPU is free after half the time (docs/adr/0018). Threading: the owner's lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/cuda/driver.hpp"

namespace weft::device::cuda {

class Launcher {
 public:
  /// In the current context, for a kernel with one parameter of so many bytes. Makes so many graphs, each for
  /// the launches of one shape at a time, and uploads them in `stream`. It may wait for running kernels, as
  /// an allocation does, so that it is done with the context. Without graphs launches go out as such.
  void open(Function function, size_t bytes, size_t graphs, Stream stream);
  void close();
  /// Launches of the same shape follow each other, whatever their streams. One that no graph takes goes out
  /// as a call.
  [[nodiscard]] Code launch(Stream stream, unsigned blocks, unsigned threads, void* parameter);

 private:
  struct Made {
    Graph graph = nullptr;
    GraphNode node = nullptr;
    GraphExec executable = nullptr;
    unsigned blocks = 0, threads = 0;  // of its last launch
    uint64_t used = 0;                 // the number of that
  };
  [[nodiscard]] Code make(Made& made, KernelNode& node, Stream stream) const;
  [[nodiscard]] Made* suited(unsigned blocks, unsigned threads);
  static void destroy(const Made& made);

  Function function_ = nullptr;
  std::vector<Made> made_;
  uint64_t launched_ = 0;
};

}  // namespace weft::device::cuda
