// SPDX-License-Identifier: BSD-3-Clause
// State of the emulated driver in one process, under one lock. Device memory is a memfd: PROT_NONE at its
// device address, accessible for the emulator in a mirror of the address space, and for other processes
// through /proc/<pid>/fd.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "api.hpp"
#include "kernel.hpp"

namespace emucuda {

inline constexpr size_t kRegion = size_t{1} << 34;  // reserved address space per device
inline constexpr Code kPeerAccessAlreadyEnabled = 704, kHostMemoryAlreadyRegistered = 712,
                      kHostMemoryNotRegistered = 713;

/// Driver version, and compute capability of the devices: 90 is 9.0.
[[nodiscard]] int driver_version();
/// The oldest driver that compiles the PTX of the kernels: that of NVRTC 12.8.
[[nodiscard]] int ptx_driver_version();
[[nodiscard]] int capability();
/// The number in an environment variable, or `standard`.
[[nodiscard]] unsigned long number(const char* variable, unsigned long standard);
/// Physical devices that this process sees, in its order.
[[nodiscard]] std::vector<int> visible_devices();
/// Whether the devices are MIG instances.
[[nodiscard]] bool mig();
/// Multiprocessors of a device that this process may use.
[[nodiscard]] int multiprocessors();
/// Clients of the MPS server that share a device; 0: no MPS.
[[nodiscard]] unsigned mps_clients();

struct StreamObject;
struct Operation;
struct Recording;

struct ContextObject {
  int device = 0;  // ordinal
  bool primary = false, alive = false;
  uint64_t id = 0;
  int retains = 0;  // primary contexts only
  Code sticky = kSuccess;
  StreamObject* legacy = nullptr;  // stream 0
  std::set<ContextObject*> peers;  // contexts with peer access enabled
};

enum class Kind { device, pool, managed, pinned, registered, imported, mapped };

/// Memory of cuMemCreate; lives as long as a handle or a mapping.
struct PhysicalObject {
  int fd;
  size_t size;
  int device;  // ordinal
  bool exportable;
  uint64_t id;
  bool hidden = false;  // of a device that CUDA_VISIBLE_DEVICES hides; `device` is then the importing one
  unsigned handles = 1, mappings = 0;
};

struct Allocation {
  Kind kind;
  uintptr_t address;
  size_t size;      // as requested
  size_t reserved;  // rounded
  char* alias;      // host pointer of the emulator
  int fd;           // -1: no file
  uint64_t id;      // buffer id
  int device;       // ordinal
  ContextObject* context;
  std::string handle;                  // imported: bytes of the IPC handle
  PhysicalObject* physical = nullptr;  // mapped
  uint32_t access = 0;                 // mapped: bit mask of devices with access
  bool sync_memops = false;            // synchronous copies and fills of it wait until they are done
};

struct EventObject {
  uint64_t recorded = 0, completed = 0;  // counts of cuEventRecord
  StreamObject* stream = nullptr;        // of the last record
  ContextObject* context = nullptr;
  std::map<StreamObject*, uint64_t> streams{};  // of the last cuCtxRecordEvent: operations until then
};

struct Operation {
  enum class Type { copy, fill, write, record, wait, wait_value, kernel } type;
  /// Bytes that a copy reads: those in memory when it runs, its snapshot, or both, which must be equal.
  enum class Source { memory, snapshot, unchanged };
  uintptr_t dst = 0, src = 0;
  size_t dst_pitch = 0, src_pitch = 0, width = 0, height = 1;
  uint64_t value = 0;
  EventObject* event = nullptr;
  uint64_t record = 0;                  // number of the record
  StreamObject* recorded_in = nullptr;  // of a wait: the stream of that record
  Source source = Source::memory;
  std::vector<char> snapshot{};  // source bytes when the copy was queued
  std::unique_ptr<Kernel> kernel{};
  bool running = false;                       // the kernel has had its first turn
  uint64_t due = 0;                           // ns
  uint64_t number = 0;                        // of the submission, in the process
  std::vector<std::shared_ptr<void>> kept{};  // user objects of the graph, until its launch has ended
  /// A copy, as queued by the replay of a graph.
  [[nodiscard]] Operation clone() const;
};

/// Captured operations of one stream, in order, with the user objects that the graph retains.
struct Recording : std::vector<Operation> {
  std::vector<std::shared_ptr<void>> kept{};
  uint64_t id = 0;  // of the capture
};

struct StreamObject {
  ContextObject* context;
  bool blocking;   // synchronises with stream 0
  bool from_weft;  // created by Weft
  unsigned polls = 0;
  std::deque<Operation> queue;
  std::unique_ptr<Recording> capture{};  // set during capture
  bool capture_invalid = false;          // by a call that captures forbid
  uint64_t ended = 0;                    // operations that have left the queue
  int priority = 0;                      // clamped to -1 (highest) or 0
  unsigned channel = 0;                  // hardware queue, while it has operations
};

struct Device {
  int physical;  // index among the machine's devices
  ContextObject primary;
  uintptr_t region, bump;                          // reserved address space
  uintptr_t mirror;                                // alias of the region, accessible for the emulator
  std::map<size_t, std::vector<uintptr_t>> freed;  // by rounded size, reused last in, first out
};

/// Waits for a resident kernel: number, and longest in ns of the kernels' clock.
struct ResidentKernelWaits {
  unsigned long count = 0, longest = 0;
};

struct World {
  std::recursive_mutex mutex;
  std::condition_variable_any wake;
  bool initialised = false, over = false, worker = false;
  bool peer = true, nvlink = true, run_when_polled = false;
  uint64_t delay = 30'000;  // ns
  unsigned polls = 3;
  unsigned kernels = 128;                      // concurrent per device
  unsigned long machine_code = 0, ptx = 0;     // loaded from fat binaries
  uint32_t random = 0;                         // random state for early exits; 0: off
  uint64_t clock = 0, clock_read;              // kernels' clock (ns), and time of its last update
  ResidentKernelWaits waits[2];                // by the application, by Weft
  unsigned long resident_kernel_commands = 0;  // served
  unsigned long batch_copies = 0;              // copied
  unsigned long resident_kernel_calls = 0;     // collectives among them
  unsigned long collectives = 0;               // done
  unsigned long ll128_collectives = 0;         // begun, by lines
  unsigned long direct_collectives = 0;        // in the buffers of all ranks
  unsigned long timed_out_collectives = 0;     // timed out
  std::vector<std::unique_ptr<Device>> devices;
  std::set<ContextObject*> contexts;  // created ones; never freed
  std::map<uintptr_t, Allocation> allocations;
  std::map<uintptr_t, size_t> reservations;  // of cuMemAddressReserve
  std::set<StreamObject*> streams;
  std::set<EventObject*> events;
  std::vector<StreamObject*> destroyed_streams;  // kept: pending operations may refer to them
  std::vector<EventObject*> destroyed_events;
  uint64_t next_id = 1;      // buffers, physical memory, contexts and captures
  unsigned connections = 8;  // hardware queues of a context: CUDA_DEVICE_MAX_CONNECTIONS
  unsigned next_channel = 0;
  uint64_t submissions = 0;
  unsigned long block_collectives = 0;  // launches, of blocks of any layout
  unsigned long pair_collectives = 0;   // launches by the host among these, by pairs of ranks
  struct RemoteWrite {
    uintptr_t address;
    std::string data;
  };
  std::vector<RemoteWrite> remote_writes;  // of an adapter, which no kernel sees yet
};

[[nodiscard]] World& world();
using Lock = std::unique_lock<std::recursive_mutex>;
[[nodiscard]] inline Lock lock_world() { return Lock(world().mutex); }
[[nodiscard]] uint64_t now();

/// kSuccess after cuInit and before the end of the process.
[[nodiscard]] Code ready();
[[nodiscard]] Device* device_at(Ordinal ordinal);
/// The calling thread's context; an error if there is none or it is not usable.
[[nodiscard]] Code current(ContextObject** context);
[[nodiscard]] Code usable(ContextObject* context);
[[nodiscard]] std::string uuid_of(int physical);
/// Destroys all streams, memory and mappings of the context.
void release_context(ContextObject& context);

[[nodiscard]] Allocation* find_allocation(uintptr_t address);
/// Whether the address lies in the address space of a device, allocated or not.
[[nodiscard]] bool in_device_region(uintptr_t address);
/// Host alias of [address, address + n); null if not live memory.
[[nodiscard]] char* translate(uintptr_t address, size_t n);
/// The same for a kernel of this context; null also for memory that its GPU cannot access.
[[nodiscard]] char* translate_for(const ContextObject& context, uintptr_t address, size_t n);
void free_allocation(std::map<uintptr_t, Allocation>::iterator at);
Allocation& insert(Allocation allocation);
/// The allocation of one of the kinds that starts at the address; end() if there is none.
std::map<uintptr_t, Allocation>::iterator starting_at(uintptr_t address, std::initializer_list<Kind> kinds);
/// Unused device addresses; reuses freed addresses, last freed first.
[[nodiscard]] uintptr_t take_address(Device& device, size_t reserved);
/// Maps a file at the alias of a device address; null on failure.
[[nodiscard]] char* map_alias(uintptr_t address, int fd, size_t offset, size_t size);
void unmap_alias(uintptr_t address, size_t size);
/// Creates a file for device memory, named after the device and filled with nonzero bytes; -1 on failure.
[[nodiscard]] int create_memory(size_t size, const Device& device);
/// Ordinal of a physical device in this process; -1: not visible.
[[nodiscard]] int local_ordinal(int physical);
/// Whether devices reach each other's memory: not without peer access, nor between MIG instances.
[[nodiscard]] bool peer_access();
/// Values of CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING and _FLUSH_WRITES_OPTIONS.
[[nodiscard]] int remote_write_order();
[[nodiscard]] int remote_write_flush();
/// Whether the cgroup of this process contains a physical device.
[[nodiscard]] bool in_cgroup(int physical);
/// The device whose address space holds memory of another process.
struct Mapper {
  int ordinal;
  enum class Reach { works, no_peer_access, cut_off } reach;
};
/// Of memory on a physical device: its own ordinal; the device of the context if CUDA_VISIBLE_DEVICES hides
/// it.
[[nodiscard]] Mapper mapper_of(int physical, const ContextObject* context);
/// Frees the memory if no handle and no mapping is left.
void release_physical(PhysicalObject* physical);
/// Total number of open handles of cuMemCreate and imported memory.
[[nodiscard]] size_t open_handles();

/// Weft may query a default stream and join it by events, but put no other work into it.
enum class Use : uint8_t { work, query, join };
/// The stream of a handle in the current context; 0 is the legacy stream.
[[nodiscard]] Code stream_of(Stream handle, StreamObject** stream, Use use = Use::work);
void enqueue(StreamObject& stream, Operation operation);
/// Runs all queued operations but the last `rest`, and waits for kernels; releases the lock while waiting, if
/// given.
void drain(StreamObject& stream, Lock* released = nullptr, size_t rest = 0);
void drain_context(ContextObject& context, Lock* released = nullptr);
void drain_all();

// kernel.cpp
/// Whether the oldest operation of the stream is a started kernel.
[[nodiscard]] inline bool running(const StreamObject& stream) {
  return !stream.queue.empty() && stream.queue.front().running;
}
/// Whether the device of the stream can start another kernel.
[[nodiscard]] bool can_start_kernel(const StreamObject& stream);
/// Advances the kernels' clock by the time since the last turn, at most kMaxTickNs: on a busy machine the
/// emulated GPU runs slower, without spurious timeouts.
uint64_t tick();
/// Implicit synchronisation of a real driver: waits for all running kernels of the device.
void wait_for_kernels(int device);
/// Sleeps for as many microseconds as the environment variable says.
void sleep_for(const char* variable);
/// Records a wait if a resident kernel is running when the wait starts.
class WaitMeter {
 public:
  WaitMeter();
  ~WaitMeter();
  WaitMeter(const WaitMeter&) = delete;
  WaitMeter& operator=(const WaitMeter&) = delete;

 private:
  bool resident_ = false;
  uint64_t begin_ = 0;
};
/// Gives every running kernel a turn. Returns whether a kernel made progress.
bool give_turns();
[[nodiscard]] bool any_running();
/// Yields, later sleeps, while waiting for kernels. Aborts after half a minute: a deadlock.
class WaitBackoff {
 public:
  explicit WaitBackoff(Lock* released) : released_(released) {}
  void wait();

 private:
  Lock* released_;
  unsigned rounds_ = 0;
  uint64_t begin_ = 0;
};

// Calls by Weft are calls of functions returned by cuGetProcAddress.
[[nodiscard]] bool called_by_weft();
[[nodiscard]] bool capture_relaxed();
/// Whether EMUCUDA_STRICT=1 is set.
[[nodiscard]] bool strict();
/// Prints what Weft did against a rule and aborts.
[[noreturn]] void abort_weft(const char* rule, const char* what);
/// Records a call that is forbidden for Weft; aborts with EMUCUDA_STRICT=1.
void forbid_weft(const char* what);
/// Forbids a call that would invalidate a global-mode stream capture.
void forbid_unsafe(const char* what);
/// The injected fault for the next executed operation of Weft, if any.
[[nodiscard]] Code injected_operation_fault();

/// Locks the world and declares `context`, the current context; returns its absence from a driver function.
#define EMUCUDA_CONTEXT()           \
  const auto lock = lock_world();   \
  ContextObject* context = nullptr; \
  if (const Code code = current(&context); code != kSuccess) return code

}  // namespace emucuda
