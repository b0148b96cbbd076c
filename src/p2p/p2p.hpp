// SPDX-License-Identifier: BSD-3-Clause
// Point-to-point communication: sends, receives, probes. Used by api/ and coll/.
// A Transfer can be embedded anywhere (on the stack for blocking calls, in a step of a schedule). post_*()
// return no errors: the transfer completes with `outcome` set.
// Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/communicator.hpp"
#include "core/instance.hpp"
#include "core/request.hpp"
#include "p2p/message/transfer.hpp"

namespace weft::p2p {

class Engine;
struct UnexpectedMessage;  ///< after a matched probe, the object behind an MPI_Message handle

/// Creates the instance's engine, which lives as long as the process. Local: connects this process only.
[[nodiscard]] Status create(core::Instance& instance);
/// Connects the transports to all processes of the job; no-op when connected. Collective over the job.
[[nodiscard]] Status connect(core::Instance& instance);
[[nodiscard]] bool connected(const core::Instance& instance);
/// Completes all traffic and releases device memory; communication may start again afterwards.
void quiesce(core::Instance& instance);
/// Progresses until all outgoing traffic of this process has left, until monotonic_ns() is `end_ns` at most.
void drain(core::Instance& instance, uint64_t end_ns);
/// The process ends without MPI_Finalize, and has failed for whoever needs it. Waits until its last messages
/// have arrived, for `time_ns` at most. No other call may follow.
void leave(core::Instance& instance, uint64_t time_ns);

/// From now on messages of the program carry the signatures of their datatypes, and a receive of another type
/// fails: WEFT_CHECK=on.
void check_types(core::Instance& instance);
/// From now on sends and receives of GPU memory compare their buffers: WEFT_CHECK=gpu. trace::enabled() must
/// be true.
void check_buffers(core::Instance& instance);
/// Whether a transfer moves the data of a transfer of the program that compares its buffer.
[[nodiscard]] bool moves_for_another(const Transfer& transfer);

/// Returns a buffer of plain bytes in host memory.
[[nodiscard]] Buffer host_bytes(const void* address, size_t bytes);

/// Starts a send. `dest` may be kProcNull. The buffer must stay valid until transfer.complete().
void post_send(Transfer& transfer, const Buffer& buffer, int dest, int tag, core::Communicator& comm,
               SendMode mode = SendMode::standard, core::Channel channel = core::Channel::user);
/// Sends small host data to a peer with credit and capacity, complete on return, without a Transfer. Returns
/// false if nothing was done: use post_send().
[[nodiscard]] bool send_now(const Buffer& buffer, int dest, int tag, core::Communicator& comm,
                            core::Channel channel = core::Channel::user);
/// The same for `bytes` of memory that is surely host memory; `dest` is a rank.
[[nodiscard]] bool send_now(const void* from, uint64_t bytes, int dest, int tag, core::Communicator& comm,
                            core::Channel channel = core::Channel::user);
/// Starts a receive. `source` may be kAnySource or kProcNull, `tag` may be kAnyTag.
void post_receive(Transfer& transfer, const Buffer& buffer, int source, int tag, core::Communicator& comm,
                  core::Channel channel = core::Channel::user);
/// The same in another context id that the members of the communicator have agreed on.
void post_send_in(core::ContextId context, Transfer& transfer, const Buffer& buffer, int dest, int tag,
                  core::Communicator& comm);
void post_receive_in(core::ContextId context, Transfer& transfer, const Buffer& buffer, int source, int tag,
                     core::Communicator& comm);
/// Starts a standard send or a receive, by the kind of the new transfer, of `bytes` contiguous bytes. `rank`
/// is a rank.
void post_contiguous(Transfer& transfer, const Buffer& buffer, uint64_t bytes, int rank, int tag,
                     core::Communicator& comm);
/// Prepares a persistent request without starting it (MPI_Send_init, MPI_Recv_init).
void prepare(Transfer& transfer, const Buffer& buffer, int rank, int tag, core::Communicator& comm,
             SendMode mode);
/// Whether GPU memory of a persistent request is classified again at each start: that of pools and of
/// cuMemMap, whose copies under way the start waits for, and all with gpu.persistent=start.
[[nodiscard]] bool classified_at_start(const device::Memory& memory);

/// Returns a Transfer from the slab, for MPI_Isend and similar calls: its address is the handle. Null: the
/// slab is full.
[[nodiscard]] Transfer* create_transfer(core::Request::Kind kind);

/// Returns a matching message without removing it; null: none yet. The caller makes progress.
[[nodiscard]] const UnexpectedMessage* probe(int source, int tag, core::Communicator& comm);
/// The same, and removes the message from matching; post_matched_receive() receives it.
[[nodiscard]] UnexpectedMessage* matched_probe(int source, int tag, core::Communicator& comm);
void post_matched_receive(Transfer& transfer, const Buffer& buffer, UnexpectedMessage& message,
                          core::Communicator& comm);
/// Returns lines "component\\ttext": launcher, job, transports, GPUDirect. `instance` null: what this host
/// could use.
[[nodiscard]] std::string describe_paths(const core::Instance* instance);
/// The program has acknowledged failures of processes of the communicator.
void resume_receives(core::Communicator& comm);
/// Returns an error if no process can send from `source` any more: that process has ended, for kAnySource one
/// of the group has, without acknowledgement, or the communicator is revoked.
[[nodiscard]] Status check_source(int source, core::Communicator& comm);
/// Returns source, tag and size of a probed message.
[[nodiscard]] core::Completion describe(const UnexpectedMessage& message);
/// Returns as JSON the protocol of a message to another process of this host, for each size up to one.
/// `query`: words such as "kind=cuda to=cuda bytes=1048576"; kinds: host, pinned, cuda, pool, managed.
[[nodiscard]] Result<std::string> explain_send(const std::string& query);

/// Returns whether a value is a live message handle.
[[nodiscard]] HandleState check_message(const void* handle);
/// Returns the communicator of a matched message; null when it was freed.
[[nodiscard]] core::Communicator* communicator_of(const UnexpectedMessage& message);

/// While it lives, puts of sends that start are batched into few GPU submissions. Under the instance lock.
class BatchScope {
 public:
  explicit BatchScope(core::Instance& instance);
  ~BatchScope();
  BatchScope(const BatchScope&) = delete;
  BatchScope& operator=(const BatchScope&) = delete;

 private:
  Engine& engine_;
};

/// The error of a message that the library cannot copy.
[[nodiscard]] Error no_memory_for_copy(uint64_t bytes);
/// Packs a buffer of any memory kind into host memory. Blocks until device copies are complete.
[[nodiscard]] Status pack_to_host(const Buffer& buffer, std::vector<std::byte>& packed);

/// Buffered mode (MPI 5.0 section 3.6): the size of an attached buffer bounds the bytes in flight. `owner`:
/// address of a communicator or session; null: the process.
struct AttachedBuffer {
  void* address;
  int64_t size;
};
[[nodiscard]] Status attach_buffer(core::Instance& instance, const void* owner, void* address, int64_t size);
/// Waits until the messages in the buffer are sent, then detaches and returns the buffer.
[[nodiscard]] Result<AttachedBuffer> detach_buffer(core::Instance& instance, const void* owner);
/// Waits until the messages that are in the buffer now are sent.
void flush_buffer(core::Instance& instance, const void* owner);
/// The same as a request. check_flush(): whether a value is the handle of such a request.
[[nodiscard]] core::Request* start_flush(core::Instance& instance, const void* owner);
[[nodiscard]] HandleState check_flush(const void* handle);
/// Detaches the buffer of an owner that is being destroyed, if any.
void forget_buffer(core::Instance& instance, const void* owner);
/// Waits until no buffer contains messages.
void flush_buffers(core::Instance& instance);

}  // namespace weft::p2p
