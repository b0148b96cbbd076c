// SPDX-License-Identifier: BSD-3-Clause
// Point-to-point: sends, receives, probes. What api/ and coll/ call.
// A Transfer can be embedded anywhere (on the stack for blocking calls, in a schedule's step); errors never
// return from post_*: the transfer completes with `outcome` set.
// Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/communicator.hpp"
#include "core/instance.hpp"
#include "core/request.hpp"
#include "p2p/transfer.hpp"

namespace weft::transport::cuda_ipc {
class Exporter;
class Importer;
}  // namespace weft::transport::cuda_ipc

namespace weft::p2p {

struct Message;  ///< an unexpected message; MPI_Message handles name one after a matched probe

/// Makes the instance's engine, which lives as long as the process. Local: reaches this process only.
[[nodiscard]] Status create(core::Instance& instance);
/// Makes the transports to all processes of the job; nothing when that is done. Collective over the job.
[[nodiscard]] Status connect(core::Instance& instance);
[[nodiscard]] bool connected(const core::Instance& instance);
/// Completes what is under way towards the peers and lets go of device memory; communication may start again.
void quiesce(core::Instance& instance);
/// The caches of GPU memory that this process shows and maps: one of each, since an allocation may be opened
/// once.
[[nodiscard]] transport::cuda_ipc::Exporter& exporter(core::Instance& instance);
[[nodiscard]] transport::cuda_ipc::Importer& importer(core::Instance& instance);
/// Before memory is shown that messages have nothing to do with: tells the peers what was freed, now and
/// then.
void look_for_freed(core::Instance& instance);

/// Plain bytes in host memory.
[[nodiscard]] Buffer host_bytes(const void* address, size_t bytes);

/// Starts a send. `dest` may be kProcNull. The buffer must stay until transfer.complete().
void post_send(Transfer& transfer, const Buffer& buffer, int dest, int tag, core::Communicator& comm,
               SendMode mode = SendMode::standard, core::Channel channel = core::Channel::user);
/// A standard send that is complete on return, without a Transfer: small host data to a peer with credit and
/// room. False: nothing was done, post_send() it.
[[nodiscard]] bool send_now(const Buffer& buffer, int dest, int tag, core::Communicator& comm);
/// Starts a receive. `source` may be kAnySource or kProcNull, `tag` kAnyTag.
void post_receive(Transfer& transfer, const Buffer& buffer, int source, int tag, core::Communicator& comm,
                  core::Channel channel = core::Channel::user);
/// The same among messages of another context that the communicator's members have agreed on.
void post_send_in(core::ContextId context, Transfer& transfer, const Buffer& buffer, int dest, int tag,
                  core::Communicator& comm);
void post_receive_in(core::ContextId context, Transfer& transfer, const Buffer& buffer, int source, int tag,
                     core::Communicator& comm);
/// Fills in a persistent request without starting it (MPI_Send_init, MPI_Recv_init).
void prepare(Transfer& transfer, const Buffer& buffer, int rank, int tag, core::Communicator& comm,
             SendMode mode);

/// A Transfer from the slab, for MPI_Isend and friends: the handle is its address. Null: no room for more.
[[nodiscard]] Transfer* create_transfer(core::Request::Kind kind);

/// Looks for a message without receiving it. Null: none yet. Progress is the caller's.
[[nodiscard]] const Message* probe(int source, int tag, core::Communicator& comm);
/// The same, and takes it out of matching; received by post_matched_receive().
[[nodiscard]] Message* matched_probe(int source, int tag, core::Communicator& comm);
void post_matched_receive(Transfer& transfer, const Buffer& buffer, Message& message,
                          core::Communicator& comm);
/// Lines "part\ttext": launcher, job, transports, GPUDirect. `instance` null: what could be used here.
[[nodiscard]] std::string describe_paths(const core::Instance* instance);
/// An error when nobody can send from `source` any more: the process, or, for kAnySource, one of those that
/// may, was on another host and has ended.
[[nodiscard]] Status check_source(int source, core::Communicator& comm);
/// Source, tag and size of a probed message.
[[nodiscard]] core::Completion describe(const Message& message);
/// Which way a message to another process of this host would take, at each size up to one, as JSON. `query`:
/// words such as "kind=cuda to=cuda bytes=1048576"; kinds: host, pinned, cuda, pool, managed.
[[nodiscard]] Result<std::string> explain_send(const std::string& query);

/// Whether a value is a live message handle.
[[nodiscard]] HandleState check_message(const void* handle);
/// The communicator a matched message came on; null when it is gone.
[[nodiscard]] core::Communicator* communicator_of(const Message& message);

/// Sends that begin while it lives go to the GPU together where that is quicker. Under the instance lock.
class Together {
 public:
  explicit Together(core::Instance& instance);
  ~Together();
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;

 private:
  Engine& engine_;
};

/// Packs a buffer of any memory kind into host memory; waits for device copies.
[[nodiscard]] Status pack_aside(const Buffer& buffer, std::vector<std::byte>& packed);

/// Buffered mode (MPI 5.0 section 3.6): an attached buffer's size bounds what is buffered. `owner`: the
/// address of a communicator or session; null: the process.
inline constexpr int64_t kAutomatic = -1;  ///< size of MPI_BUFFER_AUTOMATIC: no bound
struct AttachedBuffer {
  void* address;
  int64_t size;
};
[[nodiscard]] Status attach_buffer(core::Instance& instance, const void* owner, void* address, int64_t size);
/// Waits until the messages in the buffer are sent, then gives back what was attached.
[[nodiscard]] Result<AttachedBuffer> detach_buffer(core::Instance& instance, const void* owner);
/// Waits until the messages that are in the buffer now are sent.
void flush_buffer(core::Instance& instance, const void* owner);
/// The same as a request. check_flush(): whether a value is the handle of one.
[[nodiscard]] core::Request* start_flush(core::Instance& instance, const void* owner);
[[nodiscard]] HandleState check_flush(const void* handle);
/// For an owner that ends: detaches its buffer, if it has one.
void forget_buffer(core::Instance& instance, const void* owner);
/// Waits until no buffer holds a message.
void flush_buffers(core::Instance& instance);

}  // namespace weft::p2p
