// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/launcher.hpp"

#include "base/config.hpp"
#include "base/log.hpp"
#include "device/cuda/kernels.hpp"

namespace weft::device::cuda {
namespace {

config::Choice setting_graphs(
    "gpu.graphs", 1, {"off", "on"},
    "Launch of Weft's kernels as CUDA graphs of one node each, which start 1 to 2 us earlier");

log::SlowPath no_graphs{"gpu.no_graphs", "Weft's kernels start about 2 us later"};

}  // namespace

void Launcher::open(Function function, size_t bytes, size_t graphs, Stream stream) {
  function_ = function;
  if (function == nullptr || graphs == 0 || !setting_graphs.is("on")) return;
  if (driver().graph_create == nullptr || driver().graph_set_parameters == nullptr)
    return no_graphs.hit("the driver is older than CUDA 12");
  std::vector<char> parameter(bytes);
  void* parameters[] = {parameter.data()};
  KernelNode node{function, {1, 1, 1}, {1, 1, 1}, 0, parameters, nullptr, nullptr, nullptr};
  graphs_.resize(graphs);
  for (CachedGraph& graph : graphs_) {
    const Code code = make(graph, node, stream);
    if (code == kSuccess) continue;
    no_graphs.hit("a graph cannot be created (" + describe(code) + ")");
    return close();
  }
}

Code Launcher::make(CachedGraph& graph, KernelNode& node, Stream stream) const {
  const Driver& calls = driver();
  NodeAttribute attribute{};  // a kernel node does not inherit the priority of the stream
  Code code = calls.stream_get_priority(stream, &attribute.priority);
  if (code == kSuccess) code = calls.graph_create(&graph.graph, 0);
  if (code == kSuccess) code = calls.graph_add_kernel_node(&graph.node, graph.graph, nullptr, 0, &node);
  if (code == kSuccess) code = calls.graph_set_attribute(graph.node, kNodePriority, &attribute);
  if (code == kSuccess) code = calls.graph_instantiate(&graph.executable, graph.graph, 0);
  if (code == kSuccess) code = calls.graph_upload(graph.executable, stream);
  return code;
}

void Launcher::destroy(const CachedGraph& graph) {
  if (graph.executable != nullptr) driver().graph_exec_destroy(graph.executable);
  if (graph.graph != nullptr) driver().graph_destroy(graph.graph);
}

void Launcher::close() {
  for (const CachedGraph& graph : graphs_) destroy(graph);
  graphs_.clear();
}

/// The graph with this grid shape as its last launch, since a new shape costs as much as a plain launch; else
/// the least recently used graph. Null without graphs.
Launcher::CachedGraph* Launcher::select_graph(unsigned blocks, unsigned threads) {
  CachedGraph* oldest = nullptr;
  for (CachedGraph& graph : graphs_) {
    if (graph.blocks == blocks && graph.threads == threads) return &graph;
    if (oldest == nullptr || graph.used < oldest->used) oldest = &graph;
  }
  return oldest;
}

Code Launcher::launch(Stream stream, unsigned blocks, unsigned threads, void* parameter) {
  void* parameters[] = {parameter};
  if (CachedGraph* graph = select_graph(blocks, threads); graph != nullptr) {
    const KernelNode node{function_,  {blocks, 1, 1}, {threads, 1, 1}, 0,
                          parameters, nullptr,        nullptr,         nullptr};
    graph->blocks = blocks;
    graph->threads = threads;
    graph->used = ++launched_;
    const Code code = driver().graph_set_parameters(graph->executable, graph->node, &node);
    if (code == kSuccess) return driver().graph_launch(graph->executable, stream);
    no_graphs.hit("the parameters of a graph cannot be updated (" + describe(code) + ")");
  }
  return driver().launch_kernel(function_, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
}

}  // namespace weft::device::cuda
