// SPDX-License-Identifier: BSD-3-Clause
// Remote memory access: register and deregister, put, get, atomic and flush on memory of other processes, by
// the best path for the peer and the memory kind. Knows nothing of MPI. Threading: serialised by the caller.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/slab.hpp"
#include "copy/copy.hpp"
#include "transport/network.hpp"
#include "transport/rma/message.hpp"
#include "transport/transport.hpp"

namespace weft::transport::rma {

enum class Path : uint8_t {
  direct,      ///< own memory, mapped host memory, mapped GPU memory: no action of the target
  process_vm,  ///< process_vm_readv and process_vm_writev: no action of the target
  network,     ///< RMA of the network
  message      ///< active messages: the target must make progress
};
[[nodiscard]] const char* name(Path path);  ///< "direct", "process_vm", "network", "message"

/// Reports the slow path rma.staged: GPU memory goes through host memory.
void report_staged(std::string_view reason);

/// How each operation reaches a target.
struct Caps {
  Path put, get, atomic;
  std::string reason;  ///< why no better path is used; empty: there is none
};

/// Transports and caches of the process.
class Environment {
 public:
  [[nodiscard]] virtual Peer self() const = 0;
  [[nodiscard]] virtual am::HandlerTable& handlers() = 0;
  [[nodiscard]] virtual am::Sender& sender() = 0;
  /// Whether a process shares the CPUs' memory with this one.
  [[nodiscard]] virtual bool same_host(Peer peer) = 0;
  /// Pid of another process of this host; an error for another PID namespace.
  [[nodiscard]] virtual Result<int> pid_of(Peer peer) = 0;
  /// The network to a process of another host; null: none.
  [[nodiscard]] virtual Network* network(Peer peer) = 0;
  [[nodiscard]] virtual cuda_ipc::Exporter& exporter() = 0;
  [[nodiscard]] virtual cuda_ipc::Importer& importer() = 0;

 protected:
  ~Environment() = default;
};

class Rma;

/// Memory of a peer that this process has attached. Valid until detach().
class Target {
 public:
  [[nodiscard]] Peer peer() const { return peer_; }
  [[nodiscard]] uint64_t length() const { return length_; }
  [[nodiscard]] const Caps& caps() const { return caps_; }
  /// Address in the owner.
  [[nodiscard]] uint64_t address() const { return address_; }
  /// Address at which the CPU, or kernels of the attaching GPU, access the memory; null: there is none.
  [[nodiscard]] std::byte* direct() const { return direct_; }
  /// The memory at direct().
  [[nodiscard]] const device::Memory& memory() const { return memory_; }
  /// Number of operations that are not complete at the target.
  [[nodiscard]] size_t pending() const { return pending_; }

 private:
  friend class Rma;
  Peer peer_ = 0;
  Id region_ = kNoId;                  // of the owner
  uint64_t address_ = 0, length_ = 0;  // in the owner
  Caps caps_{Path::message, Path::message, Path::message, {}};
  std::byte* direct_ = nullptr;
  device::Memory memory_;                 // at `direct_`
  std::shared_ptr<Segment> segment_;      // contains `direct_`
  cuda_ipc::Mapping* mapping_ = nullptr;  // contains `direct_`
  int pid_ = 0;
  std::vector<std::byte> rkey_;
  size_t pending_ = 0;
  Status outcome_;  // the first error since the last flush()
};

/// Whether an operation is complete at its target when the call returns; if pending, its Completion fires
/// from a later poll() of Rma or of a transport.
enum class Issued : uint8_t { complete, pending };

class Rma {
 public:
  /// Registers the handlers of the messages; `environment` outlives the object.
  explicit Rma(Environment& environment);
  ~Rma();
  Rma(const Rma&) = delete;
  Rma& operator=(const Rma&) = delete;

  /// Allocates zeroed host memory that the other processes of this host can map. Any range of it may be
  /// registered.
  [[nodiscard]] Result<std::byte*> allocate(size_t bytes);
  void free(std::byte* memory);
  /// Allocates a small piece of memory that other processes can map, without system calls for most calls. Its
  /// content is arbitrary.
  [[nodiscard]] Result<std::byte*> allocate_piece(size_t bytes);
  /// `detached`: no process accesses the memory any more; else it is not allocated again.
  void free_piece(std::byte* memory, bool detached);
  /// Lets the processes that get a key access [address, address + length).
  [[nodiscard]] Result<Id> register_memory(std::byte* address, size_t length, const device::Memory& memory);
  /// Atomic operations of peers on the region announce data in `data`, memory of a GPU that needs
  /// device::flush_remote_writes(): kernels see data of network adapters there before they see the operation.
  void announces(Id region, const device::Memory& data);
  /// Returns the key by which `peer` attaches the memory.
  [[nodiscard]] Result<Key> key(Id region, Peer peer);
  /// Ends all access. Peers have flushed and detached, or are lost; later messages are dropped and counted.
  void deregister(Id region);

  /// Attaches memory of any peer, this process included, by the best path that works. `near`: memory of the
  /// GPU that accesses device memory.
  [[nodiscard]] Result<std::unique_ptr<Target>> attach(Peer peer, const Key& key, const device::Memory& near);
  /// Precondition: no operation is pending.
  void detach(std::unique_ptr<Target> target);

  /// Writes `from` to the target's memory. The buffer must not change, and `done` must live, until the
  /// operation is complete. Errc::arg: outside of the memory.
  [[nodiscard]] Result<Issued> put(Target& target, uint64_t offset, const Buffer& from,
                                   Completion* done = nullptr);
  /// Reads the target's memory into `to`.
  [[nodiscard]] Result<Issued> get(Target& target, uint64_t offset, const Buffer& to,
                                   Completion* done = nullptr);
  /// Copies `bytes` bytes between the layouts of a mapped target and of a local buffer, one of them in GPU
  /// memory. `remote`: a view of Target::memory() at Target::direct() plus the offset. `put`: from `local`.
  [[nodiscard]] Result<Issued> copy_layouts(Target& target, bool put, const copy::View& remote,
                                            const copy::View& local, uint64_t bytes,
                                            Completion* done = nullptr);
  /// Executes an atomic operation; the value before is in `*before` on completion. Atomic operations of one
  /// process on one target are executed in the order of the calls. Errc::arg: misaligned.
  [[nodiscard]] Result<Issued> atomic(Target& target, uint64_t offset, const Atomic& atomic, uint64_t* before,
                                      Completion* done = nullptr);
  /// Returns true once all earlier operations are complete at the target, and the first error among them.
  [[nodiscard]] Result<bool> flush(Target& target);

  /// Ends the operations on the target that wait for messages; the owner of its memory may still execute
  /// them.
  void abandon(const Target& target, const Error& why);
  /// Whether a network receives data of a put into the memory.
  [[nodiscard]] bool receiving(Id region) const;

  /// Progresses copies and messages; the owner also polls the transports. Returns whether anything moved.
  bool poll();
  /// Whether a poll of device copies costs no call of the driver: kernels execute them.
  [[nodiscard]] bool kernels_copy() const {
    return collected_.count != 0 || (!copying_.empty() && !copying_.back().ticket.on_copy_engine());
  }
  /// Progresses device copies only.
  bool poll_copies();
  /// Whether no operation is in flight and no get of a peer is being served.
  [[nodiscard]] bool idle() const { return slab_.live() == 0 && serving_.empty(); }
  /// Fails the operations of a lost peer, after the network has failed its own.
  void lost(Peer peer, const Error& why);
  /// A lost peer of another job is removed: its index may be used again.
  void forget(Peer peer) {
    std::erase(lost_, peer);
    proved_.erase(peer);
    pools_.erase(peer);
  }

 private:
  enum class Kind : uint8_t { put, get, atomic };
  struct Operation : Completion {
    Rma* owner;
    Target* target;
    Kind kind;
    uint64_t offset;
    Buffer local;
    Completion* done_by_user;
    uint64_t* before = nullptr;
    Id id = kNoId;              // of an operation by messages
    size_t moved = 0;           // bytes sent or received
    Operation* next = nullptr;  // in a CopyBatch
  };
  /// Device copies with one completion.
  struct CopyBatch {
    device::Ticket ticket;
    Status outcome;  // of the submission
    Operation *first = nullptr, *last = nullptr;
    size_t count = 0;
    uint64_t bytes = 0;
    void add(Operation& operation);
  };
  struct Registration {
    Id id;
    std::byte* address;
    size_t length;
    device::Memory memory;
    std::vector<std::pair<Network*, uint64_t>> networks;  // registrations
    device::Memory announced{};                           // by atomic operations; host memory: none
    [[nodiscard]] bool contains(uint64_t offset, uint64_t bytes) const {
      return offset <= length && bytes <= length - offset;
    }
  };
  struct Serving {  // a get of a peer whose data are being sent
    Peer peer;
    GetMessage request;
    uint64_t sent;
  };

  // rma.cpp
  [[nodiscard]] const Segment* segment_of(const std::byte* address, size_t length) const;
  [[nodiscard]] Status attach_segment(Target& target, const Key& key);
  [[nodiscard]] Status attach_process(Target& target, const Key& key);
  [[nodiscard]] Status attach_device(Target& target, const Key& key, const device::Memory& near);
  [[nodiscard]] Status attach_network(Target& target, const Key& key);
  [[nodiscard]] Status check(const Target& target, uint64_t offset, uint64_t bytes) const;
  Operation* create(Target& target, Kind kind, uint64_t offset, const Buffer& local, Completion* done);
  void finish(Operation& operation, Status outcome);
  /// Ends the operations by messages for which which(operation) is true.
  template <class Which>
  void fail(Which&& which, const Error& why);
  [[nodiscard]] Result<Issued> move(Target& target, Kind kind, uint64_t offset, const Buffer& local,
                                    Completion* done);
  [[nodiscard]] static Status copy_process(const Target& target, Kind kind, uint64_t offset,
                                           const Buffer& local);

  // device_copy.cpp
  [[nodiscard]] Result<Issued> copy_direct(Target& target, Kind kind, uint64_t offset, const Buffer& local,
                                           Completion* done);
  [[nodiscard]] Result<Issued> track(Operation& operation, CopyBatch batch);
  void collect(Operation& operation);
  void submit_collected();
  void submit_batch(CopyBatch& batch);

  // message.cpp
  void register_handlers();
  [[nodiscard]] Result<Issued> send_request(Operation& operation);
  bool send_put(Operation& operation);
  bool serve(Serving& serving);
  void reply(Peer to, Id operation, ReplyMessage::Outcome outcome, uint64_t value = 0);
  [[nodiscard]] Operation* find(Id id, Peer source);
  void on_put(Peer source, const PutMessage& message, size_t size);
  void on_get(Peer source, const GetMessage& message);
  void on_atomic(Peer source, const AtomicMessage& message);
  void on_data(Peer source, const DataMessage& message, size_t size);
  void on_reply(Peer source, const ReplyMessage& message);
  [[nodiscard]] static Result<uint64_t> execute_at(const Registration& registration, uint64_t offset,
                                                   const Atomic& atomic);

  Environment& environment_;
  const uint64_t proof_;                                           // at its address in keys
  std::map<const std::byte*, std::unique_ptr<Segment>> segments_;  // of this process, by address
  std::map<std::tuple<Peer, uint64_t, uint64_t>, std::weak_ptr<Segment>> attached_;  // by device and inode
  SegmentPool pool_;
  std::map<Peer, std::shared_ptr<Segment>> pools_;  // of peers
  std::map<Peer, uint64_t> proved_;                 // Key::proof of the peers whose memory system calls reach
  IdTable<Registration> registrations_;
  IdTable<Operation> operations_;  // by messages
  Slab<Operation> slab_;
  std::vector<Operation*> sending_;
  std::vector<CopyBatch> copying_;
  CopyBatch collected_;    // not submitted yet
  size_t since_poll_ = 0;  // copies
  bool expects_burst_ = false;
  std::deque<Serving> serving_;
  std::vector<Peer> lost_;
};

}  // namespace weft::transport::rma
