// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/launcher.hpp"

#include "base/config.hpp"
#include "base/log.hpp"
#include "device/cuda/kernels.hpp"

namespace weft::device::cuda {
namespace {

config::Choice setting_graphs(
    "gpu.graphs", 1, {"off", "on"},
    "Launch Weft's kernels as CUDA graphs of one node each, which begin 1 to 2 us earlier");

log::SlowPath no_graphs{"gpu.no_graphs", "Weft's kernels begin some 2 us later"};

}  // namespace

void Launcher::open(Function function, size_t bytes, size_t graphs, Stream stream) {
  function_ = function;
  if (function == nullptr || graphs == 0 || !setting_graphs.is("on")) return;
  if (driver().graph_create == nullptr || driver().graph_set_parameters == nullptr)
    return no_graphs.hit("the driver is older than CUDA 12");
  std::vector<char> parameter(bytes);
  void* parameters[] = {parameter.data()};
  KernelNode node{function, {1, 1, 1}, {1, 1, 1}, 0, parameters, nullptr, nullptr, nullptr};
  made_.resize(graphs);
  for (Made& made : made_) {
    const Code code = make(made, node, stream);
    if (code == kSuccess) continue;
    no_graphs.hit("a graph cannot be made (" + describe(code) + ")");
    return close();
  }
}

Code Launcher::make(Made& made, KernelNode& node, Stream stream) const {
  const Driver& calls = driver();
  NodeAttribute attribute{};  // a node has its own, not the stream's
  Code code = calls.stream_get_priority(stream, &attribute.priority);
  if (code == kSuccess) code = calls.graph_create(&made.graph, 0);
  if (code == kSuccess) code = calls.graph_add_kernel_node(&made.node, made.graph, nullptr, 0, &node);
  if (code == kSuccess) code = calls.graph_set_attribute(made.node, kNodePriority, &attribute);
  if (code == kSuccess) code = calls.graph_instantiate(&made.executable, made.graph, 0);
  if (code == kSuccess) code = calls.graph_upload(made.executable, stream);
  return code;
}

void Launcher::destroy(const Made& made) {
  if (made.executable != nullptr) driver().graph_exec_destroy(made.executable);
  if (made.graph != nullptr) driver().graph_destroy(made.graph);
}

void Launcher::close() {
  for (const Made& made : made_) destroy(made);
  made_.clear();
}

/// A graph whose last launch had this shape, since another shape costs as much as a launch; else the one that
/// was used longest ago. Null when there are none.
Launcher::Made* Launcher::suited(unsigned blocks, unsigned threads) {
  Made* oldest = nullptr;
  for (Made& made : made_) {
    if (made.blocks == blocks && made.threads == threads) return &made;
    if (oldest == nullptr || made.used < oldest->used) oldest = &made;
  }
  return oldest;
}

Code Launcher::launch(Stream stream, unsigned blocks, unsigned threads, void* parameter) {
  void* parameters[] = {parameter};
  if (Made* made = suited(blocks, threads); made != nullptr) {
    const KernelNode node{function_,  {blocks, 1, 1}, {threads, 1, 1}, 0,
                          parameters, nullptr,        nullptr,         nullptr};
    made->blocks = blocks;
    made->threads = threads;
    made->used = ++launched_;
    const Code code = driver().graph_set_parameters(made->executable, made->node, &node);
    if (code == kSuccess) return driver().graph_launch(made->executable, stream);
    no_graphs.hit("a graph does not take its next launch (" + describe(code) + ")");
  }
  return driver().launch_kernel(function_, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
}

}  // namespace weft::device::cuda
