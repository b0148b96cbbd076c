// SPDX-License-Identifier: BSD-3-Clause
// Runs the engine on a GPU with the CUDA driver. Two streams exist: `edge_` (highest priority) for boundary
// sweeps, `main_` for all other work. boundary(k) waits on the GPU for interior(k-1); interior(k) needs
// boundary(k-1), for which the host waits before it exchanges the halos.
#include <algorithm>
#include <map>
#include <utility>

#include "engine.hpp"

#ifdef WEFT_HAVE_KERNELS
#include "cuda_driver.hpp"
#include "kernels.hpp"
#include "persistent.hpp"

extern "C" const unsigned char weft_fatbin_kernels[];
#ifdef JACOBI_PERSISTENT
extern "C" const unsigned char weft_fatbin_persistent[];
#endif

namespace jacobi {
namespace {

using cuda::Address;

constexpr int vector_width = 4;                // adjacent cells per thread, if the row length allows it
constexpr int highest_strip = 16;              // rows
constexpr size_t launches_ahead = 4;           // of graphs: a full launch queue would block the driver
constexpr int blocks_per_multiprocessor = 32;  // enough to make the last wave of blocks insignificant

float* as_pointer(Address address) { return reinterpret_cast<float*>(address); }
Address as_address(const void* pointer) { return reinterpret_cast<Address>(pointer); }

// Initialises the device. A class of its own, so that a failed constructor releases the acquired resources.
class Setup {
 public:
  explicit Setup(int local_rank) {
    int count = 0;
    WEFT_JACOBI_CUDA(DeviceGetCount, &count);
    if (count == 0) throw EngineError("no GPU is visible to this process");
    WEFT_JACOBI_CUDA(DeviceGet, &device, local_rank % count);
    WEFT_JACOBI_CUDA(DevicePrimaryCtxRetain, &context, device);
    WEFT_JACOBI_CUDA(CtxSetCurrent, context);
    WEFT_JACOBI_CUDA(ModuleLoadData, &module, weft_fatbin_kernels);
  }
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;
  ~Setup() {
    if (module) cuda::driver().ModuleUnload(module);
    if (context) cuda::driver().DevicePrimaryCtxRelease(device);
  }

  cuda::Device device = 0;
  cuda::Context context = nullptr;
  cuda::Module module = nullptr;
};

class CudaEngine final : public Engine {
 public:
  explicit CudaEngine(int local_rank);
  ~CudaEngine() override;

  std::string description() const override { return name_; }
  bool on_gpu() const override { return true; }
  std::string identity() const override;

  float* allocate(size_t cells) override;
  void release(float* grid) override;
  float* allocate_staging(size_t cells) override;
  void set_columns(float* grid, int nx, const std::vector<float>& values) override;

  void sweep(const Sweep& sweep, Part part) override;
  void copy(float* to, const float* from, size_t cells) override;
  void copy_to_staging(float* staging, const float* from, size_t cells) override;
  void copy_from_staging(float* to, const float* staging, size_t cells) override;
  void wait() override { WEFT_JACOBI_CUDA(StreamSynchronize, main_); }
  void wait_boundary() override { WEFT_JACOBI_CUDA(StreamSynchronize, edge_); }
  double residual(int slot) override;
  void start_persistent(kernel::Persistent& call, int ranks_on_gpu) override;
  void* stream() const override { return main_; }
  void begin_graph() override;
  int end_graph() override;
  void launch(int graph, int slot) override;
  void destroy_graphs() override;
  void finish() override;
  void download(float* to, const float* from, size_t cells) override;

 private:
  kernel::Strips shape(const Sweep& sweep, Part part, unsigned& blocks) const;
  cuda::Function kernel_for(const Sweep& sweep) const;
  unsigned norm_blocks(const Sweep& sweep, Part part) const;

  Setup setup_;
  std::string name_;
  int processors_ = 0;
  cuda::Stream main_ = nullptr, edge_ = nullptr;
  cuda::Event interior_done_ = nullptr, slot_done_[2] = {}, launched_[launches_ahead] = {};
  cuda::Function sweep_4_ = nullptr, sweep_4_norm_ = nullptr, sweep_1_ = nullptr, sweep_1_norm_ = nullptr;
  cuda::Function set_columns_ = nullptr;
  Address accumulator_ = 0;    // double sum, unsigned arrived
  double* results_ = nullptr;  // mapped host memory, one per slot
  cuda::Module persistent_ = nullptr;
  float* counters_ = nullptr;  // of the persistent kernel
  std::vector<std::pair<cuda::Graph, cuda::GraphExecutable>> graphs_;
  size_t launches_ = 0;  // of graphs
  bool captures_ = false;
  std::map<float*, size_t> grids_;
  std::vector<float*> staging_;
};

CudaEngine::CudaEngine(int local_rank) : setup_(local_rank) {
  char name[128] = "";
  WEFT_JACOBI_CUDA(DeviceGetName, name, sizeof name, setup_.device);
  name_ = name;
  WEFT_JACOBI_CUDA(DeviceGetAttribute, &processors_, cuda::attribute_multiprocessors, setup_.device);
  int least = 0, greatest = 0;
  WEFT_JACOBI_CUDA(CtxGetStreamPriorityRange, &least, &greatest);
  WEFT_JACOBI_CUDA(StreamCreateWithPriority, &main_, cuda::stream_non_blocking, least);
  WEFT_JACOBI_CUDA(StreamCreateWithPriority, &edge_, cuda::stream_non_blocking, greatest);
  WEFT_JACOBI_CUDA(EventCreate, &interior_done_, cuda::event_no_timing);
  for (cuda::Event& event : slot_done_) WEFT_JACOBI_CUDA(EventCreate, &event, cuda::event_no_timing);
  for (cuda::Event& event : launched_) WEFT_JACOBI_CUDA(EventCreate, &event, cuda::event_no_timing);
  WEFT_JACOBI_CUDA(ModuleGetFunction, &sweep_4_, setup_.module, "jacobi_sweep_4");
  WEFT_JACOBI_CUDA(ModuleGetFunction, &sweep_4_norm_, setup_.module, "jacobi_sweep_4_norm");
  WEFT_JACOBI_CUDA(ModuleGetFunction, &sweep_1_, setup_.module, "jacobi_sweep_1");
  WEFT_JACOBI_CUDA(ModuleGetFunction, &sweep_1_norm_, setup_.module, "jacobi_sweep_1_norm");
  WEFT_JACOBI_CUDA(ModuleGetFunction, &set_columns_, setup_.module, "jacobi_set_columns");
  accumulator_ = as_address(allocate(4));  // zeroed: 8 bytes for the sum, 4 for the counter
  void* results = nullptr;
  WEFT_JACOBI_CUDA(MemHostAlloc, &results, 2 * sizeof *results_, cuda::host_portable | cuda::host_mapped);
  results_ = static_cast<double*>(results);  // unified addressing: the device uses the same pointer
  results_[0] = results_[1] = 0;
}

// Ignores errors: the process may be ending after a failure.
CudaEngine::~CudaEngine() {
  const cuda::Driver& driver = cuda::driver();
  driver.StreamSynchronize(main_);
  driver.StreamSynchronize(edge_);
  for (const auto& [grid, cells] : grids_) driver.MemFree(as_address(grid));
  for (float* memory : staging_) driver.MemFreeHost(memory);
  driver.MemFreeHost(results_);
  if (persistent_) driver.ModuleUnload(persistent_);
  driver.EventDestroy(interior_done_);
  for (cuda::Event event : slot_done_) driver.EventDestroy(event);
  for (cuda::Event event : launched_) driver.EventDestroy(event);
  driver.StreamDestroy(main_);
  driver.StreamDestroy(edge_);
}

std::string CudaEngine::identity() const {
  cuda::Uuid uuid{};
  WEFT_JACOBI_CUDA(DeviceGetUuid, &uuid, setup_.device);
  return {uuid.bytes, sizeof uuid.bytes};
}

float* CudaEngine::allocate(size_t cells) {
  Address address = 0;
  WEFT_JACOBI_CUDA(MemAlloc, &address, cells * sizeof(float));
  grids_.emplace(as_pointer(address), cells);
  WEFT_JACOBI_CUDA(MemsetD8Async, address, 0, cells * sizeof(float), main_);
  finish();
  return as_pointer(address);
}

void CudaEngine::release(float* grid) {
  finish();
  grids_.erase(grid);
  WEFT_JACOBI_CUDA(MemFree, as_address(grid));
}

float* CudaEngine::allocate_staging(size_t cells) {
  void* memory = nullptr;
  WEFT_JACOBI_CUDA(MemHostAlloc, &memory, cells * sizeof(float), cuda::host_portable);
  staging_.push_back(static_cast<float*>(memory));
  std::fill_n(staging_.back(), cells, 0.0f);
  return staging_.back();
}

void CudaEngine::set_columns(float* grid, int nx, const std::vector<float>& values) {
  float* on_device = allocate(values.size());
  WEFT_JACOBI_CUDA(MemcpyHtoDAsync, as_address(on_device), values.data(), values.size() * sizeof(float),
                   main_);
  int rows = static_cast<int>(values.size());
  void* parameters[] = {&grid, &nx, &on_device, &rows};
  const unsigned blocks = (static_cast<unsigned>(rows) + kernel::threads - 1) / kernel::threads;
  WEFT_JACOBI_CUDA(LaunchKernel, set_columns_, blocks, 1, 1, kernel::threads, 1, 1, 0, main_, parameters,
                   nullptr);
  release(on_device);
}

kernel::Strips CudaEngine::shape(const Sweep& sweep, Part part, unsigned& blocks) const {
  const int width = kernel::threads * (sweep.nx % vector_width == 0 ? vector_width : 1);
  const int column_blocks = (sweep.nx + width - 1) / width;
  if (part == Part::boundary) {
    const int strips = sweep.rows > 1 ? 2 : 1;
    blocks = static_cast<unsigned>(strips) * static_cast<unsigned>(column_blocks);
    return {sweep.nx, 1, sweep.rows + 1, std::max(sweep.rows - 1, 1), 1, column_blocks};
  }
  const int first = part == Part::all ? 1 : 2, end = part == Part::all ? sweep.rows + 1 : sweep.rows;
  const int rows = std::max(end - first, 0);
  int height = highest_strip;  // high strips read fewer rows twice; low strips give small grids enough blocks
  while (height > 4 &&
         static_cast<long long>(rows / height) * column_blocks < blocks_per_multiprocessor * processors_) {
    height /= 2;
  }
  blocks = static_cast<unsigned>((rows + height - 1) / height) * static_cast<unsigned>(column_blocks);
  return {sweep.nx, first, end, height, height, column_blocks};
}

cuda::Function CudaEngine::kernel_for(const Sweep& sweep) const {
  if (sweep.nx % vector_width == 0) return sweep.slot >= 0 ? sweep_4_norm_ : sweep_4_;
  return sweep.slot >= 0 ? sweep_1_norm_ : sweep_1_;
}

// Returns the number of blocks of all launches that share a slot.
unsigned CudaEngine::norm_blocks(const Sweep& sweep, Part part) const {
  unsigned blocks = 0, more = 0;
  shape(sweep, part == Part::all ? Part::all : Part::boundary, blocks);
  if (part != Part::all) shape(sweep, Part::interior, more);
  return blocks + more;
}

void CudaEngine::sweep(const Sweep& sweep, Part part) {
  const cuda::Stream stream = part == Part::boundary ? edge_ : main_;
  unsigned blocks = 0;
  kernel::Strips strips = shape(sweep, part, blocks);
  kernel::Norm norm{};
  if (sweep.slot >= 0) {
    auto* sum = reinterpret_cast<double*>(accumulator_);
    norm = {sum, reinterpret_cast<unsigned*>(sum + 1), norm_blocks(sweep, part), results_ + sweep.slot};
  }
  const float* from = sweep.from;
  float* to = sweep.to;
  void* parameters[] = {&from, &to, &strips, &norm};
  if (part == Part::boundary) WEFT_JACOBI_CUDA(StreamWaitEvent, edge_, interior_done_, 0);
  if (blocks > 0) {
    WEFT_JACOBI_CUDA(LaunchKernel, kernel_for(sweep), blocks, 1, 1, kernel::threads, 1, 1, 0, stream,
                     parameters, nullptr);
  }
  if (part == Part::interior) WEFT_JACOBI_CUDA(EventRecord, interior_done_, main_);
  if (part != Part::boundary && sweep.slot >= 0 && !captures_)  // a captured event cannot be waited for
    WEFT_JACOBI_CUDA(EventRecord, slot_done_[sweep.slot], main_);
}

void CudaEngine::copy(float* to, const float* from, size_t cells) {
  WEFT_JACOBI_CUDA(MemcpyDtoDAsync, as_address(to), as_address(from), cells * sizeof(float), main_);
}

void CudaEngine::copy_to_staging(float* staging, const float* from, size_t cells) {
  WEFT_JACOBI_CUDA(MemcpyDtoHAsync, staging, as_address(from), cells * sizeof(float), main_);
}

void CudaEngine::copy_from_staging(float* to, const float* staging, size_t cells) {
  WEFT_JACOBI_CUDA(MemcpyHtoDAsync, as_address(to), staging, cells * sizeof(float), main_);
}

double CudaEngine::residual(int slot) {
  WEFT_JACOBI_CUDA(EventSynchronize, slot_done_[slot]);
  return results_[slot];
}

#ifdef JACOBI_PERSISTENT
void CudaEngine::start_persistent(kernel::Persistent& call, int ranks_on_gpu) {
  if (cuda::driver().OccupancyMaxActiveBlocksPerMultiprocessor == nullptr)
    throw EngineError("-variant device: this CUDA driver cannot tell how many blocks fit on the GPU");
  if (persistent_ == nullptr) WEFT_JACOBI_CUDA(ModuleLoadData, &persistent_, weft_fatbin_persistent);
  cuda::Function function = nullptr;
  unsigned blocks = 0;
  const kernel::Strips interior = shape({nullptr, nullptr, call.nx, call.rows, -1}, Part::interior, blocks);
  const bool vectors = call.nx % vector_width == 0, large = vectors && interior.height == highest_strip;
  WEFT_JACOBI_CUDA(ModuleGetFunction, &function, persistent_,
                   large     ? "jacobi_persistent_4_large"
                   : vectors ? "jacobi_persistent_4"
                             : "jacobi_persistent_1");
  call.column_blocks = interior.column_blocks;
  call.height = large ? kernel::large_height : interior.height;
  call.strips = (std::max(call.rows - 2, 0) + call.height - 1) / call.height;
  blocks = static_cast<unsigned>(call.strips) * static_cast<unsigned>(call.column_blocks);
  if (counters_ == nullptr) counters_ = allocate(8);
  WEFT_JACOBI_CUDA(MemsetD8Async, as_address(counters_), 0, 8 * sizeof(float), main_);
  call.sum = reinterpret_cast<double*>(counters_);
  call.arrived = reinterpret_cast<unsigned*>(call.sum + 1);
  call.barrier = call.arrived + 1;
  call.ends = call.arrived + 2;
  int most = 0;
  WEFT_JACOBI_CUDA(OccupancyMaxActiveBlocksPerMultiprocessor, &most, function, kernel::threads, 0);
  const auto resident = static_cast<unsigned>(std::max(most * processors_ / ranks_on_gpu, 1));
  void* parameters[] = {&call};
  WEFT_JACOBI_CUDA(LaunchKernel, function,
                   std::min(resident, blocks + 2 * static_cast<unsigned>(interior.column_blocks)), 1, 1,
                   kernel::threads, 1, 1, 0, main_, parameters, nullptr);
}
#else
void CudaEngine::start_persistent(kernel::Persistent& call, int ranks_on_gpu) {
  Engine::start_persistent(call, ranks_on_gpu);
}
#endif

void CudaEngine::begin_graph() {
  if (cuda::driver().GraphInstantiate == nullptr)
    throw EngineError("-variant stream: this CUDA driver has no graphs");
  WEFT_JACOBI_CUDA(StreamBeginCapture, main_, cuda::capture_thread_local);
  captures_ = true;
}

int CudaEngine::end_graph() {
  captures_ = false;
  auto& [graph, executable] = graphs_.emplace_back();
  WEFT_JACOBI_CUDA(StreamEndCapture, main_, &graph);
  WEFT_JACOBI_CUDA(GraphInstantiate, &executable, graph, 0);
  return static_cast<int>(graphs_.size()) - 1;
}

void CudaEngine::launch(int graph, int slot) {
  cuda::Event launched = launched_[launches_++ % launches_ahead];
  WEFT_JACOBI_CUDA(EventSynchronize, launched);
  WEFT_JACOBI_CUDA(GraphLaunch, graphs_[static_cast<size_t>(graph)].second, main_);
  WEFT_JACOBI_CUDA(EventRecord, launched, main_);
  if (slot >= 0) WEFT_JACOBI_CUDA(EventRecord, slot_done_[slot], main_);
}

void CudaEngine::destroy_graphs() {
  finish();
  for (const auto& [graph, executable] : graphs_) {
    cuda::driver().GraphExecDestroy(executable);
    cuda::driver().GraphDestroy(graph);
  }
  graphs_.clear();
}

void CudaEngine::finish() {
  WEFT_JACOBI_CUDA(StreamSynchronize, edge_);
  WEFT_JACOBI_CUDA(StreamSynchronize, main_);
}

void CudaEngine::download(float* to, const float* from, size_t cells) {
  finish();
  WEFT_JACOBI_CUDA(MemcpyDtoHAsync, to, as_address(from), cells * sizeof(float), main_);
  finish();
}

}  // namespace

int count_gpus() {
  int count = 0;
  try {
    WEFT_JACOBI_CUDA(DeviceGetCount, &count);
  } catch (const EngineError&) {
    return 0;
  }
  return count;
}

std::unique_ptr<Engine> make_cuda_engine(int local_rank) { return std::make_unique<CudaEngine>(local_rank); }

}  // namespace jacobi

#else

namespace jacobi {

int count_gpus() { return 0; }

std::unique_ptr<Engine> make_cuda_engine(int) {
  throw EngineError("this program was built without nvcc and has no GPU kernels");
}

}  // namespace jacobi

#endif
