// SPDX-License-Identifier: BSD-3-Clause
// Launches the kernels of windows.
#include "device/window.hpp"

#include <algorithm>

#include "base/config.hpp"
#include "device/queue/submit.hpp"

namespace weft::device {
namespace {

using cuda::driver;
using cuda::no_context;
using kernel::Accumulate;

config::Size kernel_timeout_ms{
    "rma.kernel_timeout_ms", 30'000, 1, 86'400'000,
    "Time after which a wait of weft_device.cuh in a kernel ends with an error, in "
    "milliseconds."};

unsigned blocks_of(const Accumulate& accumulate) {
  return static_cast<unsigned>(std::clamp<uint64_t>(
      (accumulate.count + Accumulate::kThreads - 1) / Accumulate::kThreads, 1, Accumulate::kBlocks));
}

Status launch(const UserStream& stream, cuda::Function function, unsigned blocks, unsigned threads,
              const void* parameter) {
  const cuda::CurrentContext current(stream.context);
  if (current.code() != cuda::kSuccess) return no_context(current.code());
  const cuda::RelaxedCapture relaxed;  // drivers before 12.4 load a kernel at its first launch
  void* parameters[] = {const_cast<void*>(parameter)};
  WEFT_CUDA_TRY(launch_kernel, "a one-sided operation cannot be launched", function, blocks, 1, 1, threads, 1,
                1, 0, stream.handle, parameters, nullptr);
  return {};
}

}  // namespace

uint64_t kernel_timeout_ns() { return kernel_timeout_ms * uint64_t{1'000'000}; }

bool can_accumulate(const Memory& memory) {
  if (!memory.on_device()) return false;
  const auto queue = cuda::queue_of(memory);
  return queue && (*queue)->data.accumulate != nullptr && cuda::reaches(**queue, memory);
}

bool can_access(const Memory& target, const Memory& operand) {
  const auto queue = cuda::queue_of(target);
  return queue && cuda::reaches(**queue, operand);
}

Result<Ticket> cuda::launch_accumulate(WorkQueue& queue, Accumulate accumulate) {
  auto issue = [&](TrackedStream& there) {
    const RelaxedCapture relaxed;
    return there.accumulate.launch(there.stream, blocks_of(accumulate), Accumulate::kThreads, &accumulate);
  };
  return submit_work(queue, {}, {}, StreamRole::local, "an accumulate kernel", Issue(issue));
}

Result<Ticket> accumulate_async(const Accumulate& accumulate, const Memory& memory, const Memory& result,
                                bool lone) {
  if (accumulate.count == 0) return Ticket();
  auto queue = cuda::queue_of(memory);
  if (!queue) return std::move(queue).error();
  // An operation with a result is complete at its target when the result is there.
  const bool output_is_local = cuda::owns(**queue, accumulate.result != 0 ? result : memory);
  const uint32_t number = lone ? (*queue)->resident_kernel.submit(accumulate, output_is_local) : 0;
  if (number != 0) return TicketAccess::make(TicketAccess::Executor::resident_kernel, **queue, number);
  auto ticket = cuda::launch_accumulate(**queue, accumulate);
  if (ticket && lone && accumulate.count * accumulate.size <= kResidentAccumulateBytes)
    cuda::start_resident_kernel(**queue);
  return ticket;
}

Status adopt_for_windows(const UserStream& stream) {
  auto queue = cuda::queue_of(stream.context);
  if (!queue) return std::move(queue).error();
  if ((*queue)->data.window_sync != nullptr) return {};
  return Error(Errc::unsupported, "the kernels of windows are not loaded on GPU " +
                                      std::to_string(stream.device) + " (slow path gpu.no_data_kernels)");
}

Status enqueue_accumulate(const UserStream& stream, const Accumulate& accumulate) {
  if (accumulate.count == 0) return {};
  auto queue = cuda::queue_of(stream.context);
  if (!queue) return std::move(queue).error();
  return launch(stream, (*queue)->data.accumulate, blocks_of(accumulate), Accumulate::kThreads, &accumulate);
}

Status enqueue_window_sync(const UserStream& stream, const kernel::WindowSync& sync) {
  auto queue = cuda::queue_of(stream.context);
  if (!queue) return std::move(queue).error();
  return launch(stream, (*queue)->data.window_sync, 1, sync.threads(), &sync);
}

}  // namespace weft::device
