// SPDX-License-Identifier: BSD-3-Clause
// Window: memory of a group of processes that each of them may access (MPI 5.0 chapter 12).
// Threading: under the instance lock, which waits release.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/slab.hpp"
#include "core/attribute.hpp"
#include "core/communicator.hpp"
#include "core/errhandler.hpp"
#include "core/info.hpp"
#include "core/instance.hpp"
#include "core/op.hpp"
#include "core/reference.hpp"
#include "core/request.hpp"
#include "device/allocate.hpp"
#include "device/pinned.hpp"
#include "p2p/p2p.hpp"
#include "rma/arguments.hpp"
#include "rma/control.hpp"
#include "rma/counters.hpp"
#include "rma/error.hpp"
#include "rma/gpu_accumulate.hpp"
#include "rma/peer.hpp"
#include "stream/order/followers.hpp"
#include "stream/stream.hpp"
#include "transport/rma/rma.hpp"

namespace weft::rma {

/// The values of MPI_WIN_FLAVOR_* of the ABI.
enum class Flavor : int { create = 311, allocate = 312, dynamic = 313, shared = 314 };
/// Assertions: the values of MPI_MODE_* of the ABI.
inline constexpr int kNoCheck = 1024, kNoPrecede = 2048, kNoPut = 4096, kNoStore = 8192, kNoSucceed = 16384;

class Operation;
class Window;

/// Memory of this process that belongs to a window.
struct OwnMemory {
  uint64_t length = 0;
  device::Memory memory;
  transport::rma::Id region = transport::rma::kNoId;
};

/// The request of MPI_Rput and similar calls.
class WindowRequest final : public core::Request {
 public:
  WindowRequest() : Request(Kind::none) {}
  ~WindowRequest() override = default;
  void destroy() override { slab().destroy(this); }
  static Slab<WindowRequest>& slab();
  bool in_operation = false;  ///< an Operation finishes it
};

/// Arguments of the constructors.
struct Options {
  Flavor flavor;
  void* base = nullptr;  ///< Flavor::create
  uint64_t size = 0;
  int64_t disp_unit = 1;
  bool contiguous = true;                          ///< Flavor::shared: the parts of all ranks are adjacent
  const device::AllocationKinds* kinds = nullptr;  ///< Flavor::allocate; null: host memory
};

class Window final : public core::Counted {
 public:
  /// Collective over `comm`.
  [[nodiscard]] static Result<Window*> create(core::Communicator& comm, const Options& options);
  /// Collective. The window has been destroyed on return, also with an error.
  [[nodiscard]] static Status free(Window* window);
  static Slab<Window>& slab();
  explicit Window(core::Ref<core::Communicator> own_comm);
  ~Window() override = default;

  // Synchronisation: sync.cpp.
  [[nodiscard]] Status fence(int assertion);
  [[nodiscard]] Status post(core::Group& group, int assertion);
  [[nodiscard]] Status start(core::Group& group, int assertion);
  [[nodiscard]] Status complete();
  /// MPI_Win_wait, or MPI_Win_test with `block` = false. Returns whether the exposure epoch has ended.
  [[nodiscard]] Result<bool> wait(bool block);
  [[nodiscard]] Status lock(bool exclusive, int rank, int assertion);
  [[nodiscard]] Status unlock(int rank);
  [[nodiscard]] Status lock_all(int assertion);
  [[nodiscard]] Status unlock_all();
  [[nodiscard]] Status flush(int rank);
  [[nodiscard]] Status flush_all();
  /// Polls now and then: a program that waits for a value in its window may call nothing but MPI_Win_flush
  /// and MPI_Win_sync (MPI 5.0 section 12.7.3), while peers wait for its answers.
  void progress();

  // Common cases, inline in now.hpp: host memory that is mapped. They return false, or null, and have done
  // nothing, in all other cases and for every error. Precondition: one thread calls MPI.
  /// Address of `n` > 0 bytes of a target in an open access epoch.
  [[nodiscard]] std::byte* accessible(int rank, int64_t disp, uint64_t n);
  void put_now(std::byte* target, const void* origin, uint64_t n);
  void get_now(const std::byte* target, void* result, uint64_t n);
  /// `function`: of `op`, for `count` elements in `n` bytes. `result`: null, or gets the value before.
  [[nodiscard]] bool accumulate_now(int rank, std::byte* target, const void* origin, void* result,
                                    datatype::ReduceOp op, datatype::ReduceFn function, uint64_t count,
                                    uint64_t n);
  [[nodiscard]] bool compare_and_swap_now(int rank, std::byte* target, const void* origin,
                                          const void* compare, void* result, uint64_t n);
  [[nodiscard]] bool flush_now(int rank);
  [[nodiscard]] bool lock_now(bool exclusive, int rank);
  [[nodiscard]] bool unlock_now(int rank);
  [[nodiscard]] Peer* find_peer(int rank);  ///< null: no such rank
  void notify(const Peer& peer) const;
  /// Errors unless a passive target epoch is open.
  [[nodiscard]] Status check_passive() const;
  /// Errors unless no epoch is open.
  [[nodiscard]] Status check_idle(const char* call) const;
  /// Errc::revoked, or Errc::proc_aborted if a process of the window has failed.
  [[nodiscard]] Status check_failures() const {
    if (instance.failures.changes() == 0) [[likely]]
      return {};
    return instance.failures.revoked(*comm) ? Status(revoked_error()) : instance.failures.check(*comm);
  }
  [[nodiscard]] static Error revoked_error();

  // Revocation and failures: revoke.cpp.
  /// No operation begins any more.
  void end_access();
  /// A process has failed: releases the locks that it held, and ends the access to its memory.
  void lose(core::ProcessId process);
  /// Of a revoked window: ends the operations that wait for messages. Returns true once no operation is in
  /// flight and the other processes have been told.
  [[nodiscard]] bool leave();

  // Memory of dynamic windows: dynamic.cpp.
  [[nodiscard]] Status attach(void* base, uint64_t size);
  [[nodiscard]] Status detach(const void* base);

  // Operations. `request`, if not null, is finished when the operation is complete at origin and target.
  [[nodiscard]] Status put(const p2p::Buffer& origin, const Area& area, WindowRequest* request);
  [[nodiscard]] Status get(const p2p::Buffer& origin, const Area& area, WindowRequest* request);
  /// Accumulate, and with `result` Get_accumulate and Fetch_and_op.
  [[nodiscard]] Status accumulate(const p2p::Buffer& origin, const p2p::Buffer* result, const Area& area,
                                  const core::Op& op, WindowRequest* request);
  [[nodiscard]] Status compare_and_swap(const void* origin, const void* compare, void* result,
                                        const Area& area);

  /// Executes the operation that a rank has posted. Returns false if there is none, or not now.
  bool execute_posted(int rank);
  /// Copies a chunk of the transfer that a rank shares with this process. Returns whether there was one.
  bool help_transfer(int rank);

  // In the GPU stream of the window, and notifications: enqueue.cpp.
  [[nodiscard]] Status put_enqueue(const p2p::Buffer& origin, const Area& area);
  [[nodiscard]] Status get_enqueue(const p2p::Buffer& origin, const Area& area);
  [[nodiscard]] Status accumulate_enqueue(const p2p::Buffer& origin, const Area& area, const core::Op& op);
  [[nodiscard]] Status flush_enqueue(int rank);
  [[nodiscard]] Status fence_enqueue(int assertion);
  [[nodiscard]] Status put_notify(const p2p::Buffer& origin, const Area& area, int notification);
  [[nodiscard]] Status get_notify(const p2p::Buffer& origin, const Area& area, int notification);
  [[nodiscard]] Status put_notify_enqueue(const p2p::Buffer& origin, const Area& area, int notification);
  [[nodiscard]] Status wait_notify_enqueue(int notification, int64_t value);
  /// Waits for a counter of this process to reach `value`, which it subtracts. Without `block`: returns
  /// whether it has reached it.
  [[nodiscard]] Result<bool> wait_notify(int notification, int64_t value, bool block);
  [[nodiscard]] Status create_notify(int notifications);
  [[nodiscard]] Status free_notify();
  /// Errors unless `rank` has the counter.
  [[nodiscard]] Status check_notification(int rank, int64_t notification) const;
  /// The handle of weft_device.cuh.
  [[nodiscard]] Result<void*> device_handle();
  /// Returns what kernels have reported, and forgets it.
  [[nodiscard]] DeviceStatus take_device_status();
  /// Memory of the GPU of this process in the window; on the host: there is none.
  [[nodiscard]] device::Memory gpu_memory() const;

  /// Range of this process's memory; null if it is not in the window.
  [[nodiscard]] const OwnMemory* own_memory(uint64_t window_offset, uint64_t bytes, std::byte*& address);
  /// Rank of a process; -1: not in the window.
  [[nodiscard]] int rank_of(core::ProcessId process) const { return comm->group->rank_of(process); }
  [[nodiscard]] int size() const { return comm->size(); }
  [[nodiscard]] transport::rma::Rma& rma() const;
  /// Waits until done() returns true, a process of the window has failed, or the window is revoked. done()
  /// may take a lock: it is not called again after it has returned true. `event`: published if the wait is
  /// long.
  template <class Done>
  [[nodiscard]] Status wait_for(Done&& done, const core::Operands& event) {
    bool reached = false;
    constexpr int kSpins = 200;  // calls before other work is progressed
    for (int i = instance.oversubscribed ? 0 : kSpins; i > 0; --i)
      if (done()) return {};
    core::wait_until(instance,
                     [&] {
                       reached = done();
                       return reached || !check_failures().ok();
                     },
                     {nullptr, &event, comm.get()});
    return reached ? Status() : check_failures();
  }
  /// The same, but other processes than the target may have failed: the locks that they held are released.
  template <class Done>
  [[nodiscard]] Status wait_for_target(Done&& done, const Peer& peer, const core::Operands& event) {
    bool reached = false;
    Status outcome;
    core::wait_until(instance,
                     [&] {
                       reached = done();
                       if (!reached && instance.failures.changes() != 0) outcome = check_target(peer);
                       return reached || !outcome.ok();
                     },
                     {nullptr, &event, comm.get()});
    return reached ? Status() : std::move(outcome);
  }
  /// The event of a wait for operations on a peer.
  [[nodiscard]] core::Operands operations_at(const Peer& peer) const {
    return {wait_table::What::window_operations, static_cast<int>(&peer - peers.data())};
  }
  /// Takes the accumulate lock of a peer whose control block is mapped.
  [[nodiscard]] Status begin_accumulate(const Peer& peer);
  /// Waits until all operations on the peer are complete there.
  [[nodiscard]] Status flush_peer(Peer& peer);

  core::Ref<core::Communicator> comm;  ///< a duplicate: its context id names the window in messages
  core::Instance& instance;
  Flavor flavor = Flavor::create;
  void* base = nullptr;
  int64_t bytes = 0;
  int64_t disp_unit = 1;
  std::vector<Peer> peers;
  Control* control = nullptr;  ///< of this process
  core::Ref<core::Errhandler> errhandler;
  core::Ref<core::Info> info;
  core::AttributeSet attributes;
  bool reached_by_messages = false;  ///< a peer needs this process's progress for some operations
  std::string name;
  std::string kind;  ///< of the memory that MPI allocated; empty: the program did not ask for a kind
  core::Ref<stream::Stream> stream;    ///< whose kernels execute operations of the communicator; null: none
  stream::order::Following following;  ///< of that communicator
  std::unique_ptr<Counters> counters;  ///< null: none
  // Storage of the values that MPI_Win_get_attr returns.
  int disp_unit_attribute = 1, flavor_attribute = 0, model_attribute = 321;  // MPI_WIN_UNIFIED

 private:
  friend class Messages;
  friend class Operation;
  void destroy() override { slab().destroy(this); }
  struct Record;
  [[nodiscard]] Status allocate(const Options& options, const std::vector<uint64_t>& sizes);
  [[nodiscard]] Status allocate_segment(uint64_t bytes);
  [[nodiscard]] Status allocate_kind(device::MemoryKind wanted, uint64_t head, uint64_t data);
  [[nodiscard]] Status share(const Options& options, Status own);
  [[nodiscard]] Status attach_peers(const std::vector<Record>& records);
  [[nodiscard]] bool needs_progress_of(const Peer& peer) const;
  [[nodiscard]] Status confirm(Status attached);
  [[nodiscard]] Status withdraw();
  [[nodiscard]] Result<const device::UserStream*> user_stream() const;
  [[nodiscard]] Status locate_for_stream(const p2p::Buffer& origin, const Area& area, Place& place);
  [[nodiscard]] Status sync_enqueue(const device::kernel::WindowSync& call);
  [[nodiscard]] Status announce(int rank, int notification);
  [[nodiscard]] Status create_stream_counters(Status own);
  [[nodiscard]] Status drop_counters();
  [[nodiscard]] Status settle_stream();

  /// Checks rank, epoch and range. Precondition: area.rank is not kProcNull.
  [[nodiscard]] Status locate(const Area& area, Place& place);
  [[nodiscard]] Status locate_region(const Area& area, Place& place);
  [[nodiscard]] Result<RemoteRegion*> find_region(Peer& peer, int rank, uint64_t first, uint64_t end);
  void drop_regions(Peer& peer);
  [[nodiscard]] Status check_rank(const char* argument, int rank) const;
  [[nodiscard]] Error no_epoch(int rank) const;
  /// Errc::revoked, or Errc::proc_aborted if the peer has failed.
  [[nodiscard]] Status check_target(const Peer& peer) const;
  /// MPI_ERR_RMA_SYNC; but after a failure or revocation the error of check_failures(), for which an earlier
  /// call may have opened no epoch.
  [[nodiscard]] Error sync_error(std::string text) const;
  void tell_detached();
  void await_detached();
  /// Calls visit(target) for all attached memory of other processes.
  template <class Visit>
  void for_each_target(Visit&& visit);
  /// An operation that may wait: this process may access memory of others until its end.
  struct Busy {
    explicit Busy(Window& of) : window(of) { ++window.busy_; }
    ~Busy() { --window.busy_; }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;
    Window& window;
  };
  /// Counts an operation. A loop of operations alone notices revocations and failures, too.
  void count_use() {
    if (++used_ == 0) [[unlikely]]
      poll_uses();
  }
  void poll_uses();

  [[nodiscard]] Status move(bool put, const p2p::Buffer& origin, const Area& area, const Place& place,
                            const device::Memory& memory, WindowRequest* request);
  [[nodiscard]] Status copy_layouts(bool put, const p2p::Buffer& origin, const Area& area, const Place& place,
                                    const device::Memory& memory, WindowRequest* request);
  [[nodiscard]] Status copy_stream(bool put, const Area& area, const Place& place, uint64_t at, uint64_t n,
                                   const copy::View& stream);
  [[nodiscard]] std::optional<ElementOperation> element_operation(const Area& area, const Place& place,
                                                                  datatype::ReduceOp op,
                                                                  std::optional<datatype::Basic> basic,
                                                                  bool compare_swap) const;
  [[nodiscard]] Status accumulate_on_gpu(const ElementOperation& operation, const Area& area,
                                         const Place& place, Operands operands);
  [[nodiscard]] Status accumulate_by_kernel(const p2p::Buffer& origin, const p2p::Buffer* result,
                                            const Place& place, datatype::ReduceOp op, datatype::Basic basic,
                                            WindowRequest* request);
  [[nodiscard]] Status update(const Area& area, const Place& place, const std::byte* in,
                              const std::byte* compare, datatype::ReduceOp op, datatype::Basic basic,
                              std::byte* old);
  [[nodiscard]] Status execute(const Area& area, const Place& place, const std::byte* in,
                               const std::byte* compare, datatype::ReduceOp op, datatype::Basic basic,
                               const p2p::Buffer* result, WindowRequest* request);

  [[nodiscard]] Status update_locked(const Area& area, const Place& place, const std::byte* in,
                                     const std::byte* compare, datatype::ReduceOp op, datatype::Basic basic,
                                     std::byte* old);

  // Operations on memory that is not mapped, executed by its owner: posted.cpp.
  [[nodiscard]] bool post(const Place& place, PostedOperation operation, const void* origin,
                          const void* compare, void* result);
  /// Waits until the posted operation is complete. Errors are in Peer::outcome.
  void settle(Peer& peer) {
    if (peer.posted.phase != PostedState::none) [[unlikely]]
      finish_posted(peer);
  }
  /// Copies between contiguous host memory and the target, together with the target if it polls.
  [[nodiscard]] Status share_transfer(bool put, const Place& place, std::byte* origin);
  [[nodiscard]] Status copy_chunk(bool put, const Place& place, std::byte* origin, uint64_t at,
                                  uint64_t bytes);
  void finish_posted(Peer& peer);
  void finish_retracted(Peer& peer);
  void collect_posted(Peer& peer);
  /// The target executes the posted operation at the latest in the synchronisation that ends the epoch.
  static void bind_posted(Peer& peer) { peer.posted.bound = peer.posted.phase == PostedState::posted; }
  void connect_slots(int rank);
  void bind_all_posted();
  /// After a synchronisation that failed: its target may have left it before it could see a bound operation.
  void settle_all() {
    for (Peer& peer : peers) {
      peer.posted.bound = false;
      settle(peer);
    }
  }
  [[nodiscard]] Status settle_results();
  void drain_slots();

  /// The ranks in the window of a group's processes, kept for the next call with the same group.
  struct GroupRanks {
    core::Ref<core::Group> group;
    std::vector<int> ranks;
  };
  /// A barrier by counters in the control blocks. Precondition: host_barrier_.
  [[nodiscard]] Status barrier_of_host();
  [[nodiscard]] Status find_ranks(core::Group& group, GroupRanks& found) const;

  // Epochs. A fence opens an epoch that begins with its first operation.
  [[nodiscard]] Status open_access(const char* call);
  [[nodiscard]] Status acquire(Peer& peer, int rank, Lock lock, bool check);
  void release_lock(Peer& peer);
  /// Sets Peer::accessible after a change of the epochs that cover the peer.
  void update_access(Peer& peer) const {
    const bool open = access_all_ || peer.lock != Lock::none || peer.started;
    peer.accessible = open && peer.host != nullptr && peer.control != nullptr ? peer.size : 0;
  }
  void set_access_to_all(bool open);
  /// Whether flush_peer() has nothing to wait for, and no error to return.
  [[nodiscard]] static bool flushed(const Peer& peer) {
    return peer.host != nullptr && peer.pending == 0 && peer.outcome.ok();
  }
  const int own_rank_ = comm->rank();
  bool access_all_ = false;  ///< operations on all targets are allowed: fence or lock_all
  bool fence_ = false, lock_all_ = false;
  bool has_notifications_ = false;  ///< by MPIX_Win_create_notify
  bool host_barrier_ = false;       ///< all processes map all control blocks, and have a core each
  bool serves_messages_ = false;    ///< peers without a mapping of the control block: polls in each call
  bool has_slots_ = false;          ///< other processes may post operations, or this process posts some
  unsigned calls_until_poll_ = 0;   ///< of progress(); 0: the next one polls
  uint8_t used_ = 0;                ///< operations since the last fence, by count_use(); 0: none
  bool told_ = false;               ///< the others know that this process accesses their memory no more
  bool exchanged_ = false;          ///< other processes have had keys of this one
  bool all_detached_ = false;       ///< no other process accesses memory of this one any more
  unsigned busy_ = 0;               ///< number of Busy
  int locks_ = 0;                   ///< number of MPI_Win_lock epochs
  bool starting_ = false;           ///< between MPI_Win_start and MPI_Win_complete
  bool exposed_ = false;            ///< between MPI_Win_post and MPI_Win_wait
  GroupRanks access_, exposure_;    ///< of the last MPI_Win_start and MPI_Win_post

  bool piece_ = false;               ///< the control block is a piece of the process's pool
  std::byte* segment_ = nullptr;     ///< control block, and host memory of the window that MPI allocates
  device::Allocation allocation_;    ///< GPU or managed memory of the window that MPI allocates
  device::HostRegistration pinned_;  ///< of the memory in `segment_`
  transport::rma::Id control_region_ = transport::rma::kNoId;
  [[nodiscard]] const OwnMemory* span_of(uintptr_t first, uint64_t length);
  std::map<uintptr_t, OwnMemory> own_;            ///< by address
  std::multimap<uintptr_t, OwnMemory> spans_;     ///< adjacent attached memory that operations crossed
  std::vector<std::unique_ptr<Target>> targets_;  ///< of peers
  std::vector<uint64_t> shared_offsets_;          ///< Flavor::shared
};

/// Whether MPI_Compare_and_swap takes the predefined type.
[[nodiscard]] bool comparable(datatype::Basic basic);

/// Errors if `assertion` has bits that are not allowed.
[[nodiscard]] Status check_assertion(int assertion, int allowed);

/// Copies a packed stream into a buffer of any memory kind.
[[nodiscard]] Status unpack(const p2p::Buffer& to, const device::Memory& memory,
                            const std::vector<std::byte>& stream);

// Counters of operations, of those in streams too.
void count_move(bool put, uint64_t bytes);
void count_accumulate(uint64_t bytes);

/// `in` op `inout` on packed streams of n elements; the result is in `inout`.
void combine(datatype::ReduceOp op, datatype::Basic basic, const std::byte* in, std::byte* inout, size_t n);

/// The slab check of WindowRequest.
[[nodiscard]] HandleState check_request(const void* handle);

}  // namespace weft::rma
