// SPDX-License-Identifier: BSD-3-Clause
// Everything the emulated driver knows in one process, under one lock. Device memory is a memfd: host code
// sees it at a PROT_NONE address, the emulator in a mirror of the address space, other processes through
// /proc/<pid>/fd.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "api.hpp"
#include "kernel.hpp"

namespace emucuda {

inline constexpr size_t kRegion = size_t{1} << 36;  // address space of a device, reserved only
inline constexpr Code kInvalidDevice = 101, kPeerAccessUnsupported = 217, kPeerAccessAlreadyEnabled = 704,
                      kHostMemoryAlreadyRegistered = 712, kHostMemoryNotRegistered = 713,
                      kCaptureUnsupported = 900;

/// The driver's version, and the devices' compute capability: 90 is 9.0.
[[nodiscard]] int driver_version();
[[nodiscard]] int capability();

struct StreamObject;
struct Operation;
/// What a capture recorded, in order: one stream's operations.
using Recording = std::vector<Operation>;

struct ContextObject {
  int device = 0;  // ordinal
  bool primary = false, alive = false;
  uint64_t id = 0;
  int retains = 0;  // primary contexts only
  Code sticky = kSuccess;
  StreamObject* legacy = nullptr;  // stream 0
  std::set<ContextObject*> peers;  // whose memory its kernels may touch
};

enum class Kind { device, pool, managed, pinned, registered, imported, mapped };

/// Memory of cuMemCreate: lives while a handle or a mapping of it does.
struct PhysicalObject {
  int fd;
  size_t size;
  int device;  // ordinal
  bool exportable;
  uint64_t id;
  unsigned handles = 1, mappings = 0;
};

struct Allocation {
  Kind kind;
  uintptr_t address;
  size_t size;      // as asked for
  size_t reserved;  // rounded
  char* alias;      // where the emulator reaches the bytes
  int fd;           // -1: no file
  uint64_t id;      // buffer id
  int device;       // ordinal
  ContextObject* context;
  std::string handle;                  // imported: the bytes it was opened by
  PhysicalObject* physical = nullptr;  // mapped
  uint32_t access = 0;                 // mapped: the devices that may touch it, a bit each
};

struct EventObject {
  uint64_t recorded = 0, completed = 0;  // counts of cuEventRecord
  StreamObject* stream = nullptr;        // of the last record
  ContextObject* context = nullptr;
};

struct Operation {
  enum class Type { copy, fill, write, record, wait, kernel } type;
  uintptr_t dst = 0, src = 0;
  size_t dst_pitch = 0, src_pitch = 0, width = 0, height = 1;
  uint64_t value = 0;
  EventObject* event = nullptr;
  uint64_t record = 0;           // which record of the event
  std::vector<char> snapshot{};  // source bytes of pageable host memory
  bool use_snapshot = false;
  std::unique_ptr<Kernel> kernel{};
  bool running = false;  // the kernel has had its first turn
  uint64_t due = 0;      // ns
  /// The same once more, as a graph's replay queues it.
  [[nodiscard]] Operation again() const;
};

struct StreamObject {
  ContextObject* context;
  bool blocking;   // synchronises with stream 0
  bool from_weft;  // created by Weft
  unsigned polls = 0;
  std::deque<Operation> queue;
  std::unique_ptr<Recording> capture{};  // while it is captured
};

struct Device {
  int physical;  // index among the machine's devices
  ContextObject primary;
  uintptr_t region, bump;                          // reserved address space
  uintptr_t mirror;                                // the same once more: where the emulator sees it
  std::map<size_t, std::vector<uintptr_t>> freed;  // by rounded size, reused last in, first out
};

/// How often and for how long (ns of the kernels' clock) somebody waited for a copier.
struct CopierWaits {
  unsigned long count = 0, longest = 0;
};

struct World {
  std::recursive_mutex mutex;
  std::condition_variable_any wake;
  bool initialised = false, over = false, worker = false;
  bool peer = true, nvlink = true, run_when_polled = false;
  uint64_t delay = 30'000;  // ns
  unsigned polls = 3;
  unsigned kernels = 128;                      // run at a time on a device
  unsigned long fat_binaries = 0, cubins = 0;  // loaded
  uint32_t random = 0;                         // of the copiers' exits; 0: none
  uint64_t clock = 0, clock_read;              // the kernels' clock (ns), and when it was read
  CopierWaits waits[2];                        // of the application, of Weft
  unsigned long copier_commands = 0;           // served
  unsigned long lists = 0;                     // copied
  unsigned long copier_calls = 0;              // collectives among them
  unsigned long collectives = 0;               // done
  unsigned long line_collectives = 0;          // begun, by lines
  unsigned long direct_collectives = 0;        // in the buffers of all ranks
  unsigned long late_collectives = 0;          // left early
  std::vector<std::unique_ptr<Device>> devices;
  std::set<ContextObject*> contexts;  // created ones; never freed
  std::map<uintptr_t, Allocation> allocations;
  std::map<uintptr_t, size_t> reservations;  // of cuMemAddressReserve
  std::set<StreamObject*> streams;
  std::set<EventObject*> events;
  std::vector<StreamObject*> old_streams;  // destroyed ones stay: operations of others may name them
  std::vector<EventObject*> old_events;
  uint64_t next_id = 1;  // buffers, physical memory and contexts
};

[[nodiscard]] World& world();
using Lock = std::unique_lock<std::recursive_mutex>;
[[nodiscard]] inline Lock lock_world() { return Lock(world().mutex); }
[[nodiscard]] uint64_t now();

/// kSuccess after cuInit and before the end of the process.
[[nodiscard]] Code ready();
[[nodiscard]] Device* device_at(Ordinal ordinal);
/// The calling thread's context, usable; or why not.
[[nodiscard]] Code current(ContextObject** context);
[[nodiscard]] Code usable(ContextObject* context);
[[nodiscard]] std::string uuid_of(int physical);
/// Everything in the context ends: streams, memory, mappings.
void release_context(ContextObject& context);

[[nodiscard]] Allocation* find_allocation(uintptr_t address);
/// Inside the address space of a device, whether allocated or not.
[[nodiscard]] bool in_device_region(uintptr_t address);
/// The emulator's pointer to [address, address + n); null when that is no live memory.
[[nodiscard]] char* reach(uintptr_t address, size_t n);
/// The same for a kernel of this context: null also for memory that its GPU does not see.
[[nodiscard]] char* reach_from(const ContextObject& context, uintptr_t address, size_t n);
void free_allocation(std::map<uintptr_t, Allocation>::iterator at);
Allocation& insert(Allocation allocation);
/// Unused addresses of a device's: those freed last, before new ones.
[[nodiscard]] uintptr_t take_address(Device& device, size_t reserved);
/// Shows the emulator a file at a device address; null when that fails.
[[nodiscard]] char* map_alias(uintptr_t address, int fd, size_t offset, size_t size);
void unmap_alias(uintptr_t address, size_t size);
/// A file named by its device that stands for device memory, its content not zero; -1 without memory.
[[nodiscard]] int create_memory(size_t size, const Device& device);
/// The local ordinal of a device of the machine, or -1.
[[nodiscard]] int local_ordinal(int physical);
/// The last handle or mapping may be gone.
void release_physical(PhysicalObject* physical);
/// References of handles to memory of cuMemCreate and imported memory, all together.
[[nodiscard]] size_t handles_kept();

/// The stream a handle names in the current context (0 is the legacy stream).
[[nodiscard]] Code stream_of(Stream handle, StreamObject** stream);
void enqueue(StreamObject& stream, Operation operation);
/// Runs everything queued, now. Waits for kernels; with the lock released when it is given.
void drain(StreamObject& stream, Lock* released = nullptr);
void drain_context(ContextObject& context, Lock* released = nullptr);
void drain_all();

// kernel.cpp
/// The stream's oldest operation is a kernel that has started.
[[nodiscard]] inline bool running(const StreamObject& stream) {
  return !stream.queue.empty() && stream.queue.front().running;
}
/// Whether another kernel can start beside those that run on the stream's device.
[[nodiscard]] bool has_place(const StreamObject& stream);
/// Advances the kernels' clock by the time since the last turn, a microsecond at most: a machine that is
/// short of cores makes the emulated GPU slow, not impatient.
uint64_t tick();
/// What the implicit synchronisation of a real driver waits for: every kernel that runs on the device.
void wait_for_kernels(int device);
/// Counts a wait when copiers are running at its begin.
class WaitMeter {
 public:
  WaitMeter();
  ~WaitMeter();
  WaitMeter(const WaitMeter&) = delete;
  WaitMeter& operator=(const WaitMeter&) = delete;

 private:
  bool copier_ = false;
  uint64_t begin_ = 0;
};
/// Gives every running kernel a turn; whether one of them did something.
bool give_turns();
[[nodiscard]] bool any_running();
/// One round of waiting for kernels. Aborts after half a minute: nobody waits that long but in a deadlock.
class Patience {
 public:
  explicit Patience(Lock* released) : released_(released) {}
  void wait();

 private:
  Lock* released_;
  unsigned rounds_ = 0;
  uint64_t begin_ = 0;
};

// Weft's calls: those through the functions that cuGetProcAddress gave out.
[[nodiscard]] bool called_by_weft();
[[nodiscard]] bool capture_relaxed();
/// Records, and with EMUCUDA_STRICT=1 aborts on, a call that Weft must not make.
void forbid_weft(const char* what);
/// Forbids a call that a global-mode stream capture would not survive.
void forbid_unsafe(const char* what);
/// The injected fault of the next executed operation of Weft's, if any.
[[nodiscard]] Code injected_operation_fault();

}  // namespace emucuda
