// SPDX-License-Identifier: BSD-3-Clause
// Combined send and receive (MPI 5.0 section 3.10). The nonblocking request completes when both transfers are
// complete.
#include <array>
#include <cstddef>
#include <vector>

#include "api/check.hpp"
#include "api/gpu_check.hpp"
#include "api/handles.hpp"
#include "api/impl.hpp"
#include "api/requests.hpp"
#include "api/status.hpp"
#include "p2p/p2p.hpp"

namespace weft::api {
namespace {

using core::Communicator;
using datatype::Datatype;
using p2p::Buffer;
using p2p::buffer_of;
using p2p::Transfer;
using Kind = core::Request::Kind;

/// Arguments of the send or of the receive.
struct Half {
  Buffer buffer;
  int rank, tag;
};

/// The halves live in the slab of transfers, where debuggers find them, but have no handles: a stale handle
/// that has the address of one is refused, since they count as freed by the program (`detached`). They are
/// not `owned`: their end destroys nothing, and a receive from any source fails when a process is lost.
class SendReceive final : public core::Request, private core::Poller {
 public:
  SendReceive(Communicator& communicator, Transfer& send, Transfer& receive)
      : Request(Kind::receive), receive_(&receive), send_(&send) {
    send.detached = receive.detached = true;
    communicator.retain();
    comm = &communicator;
  }
  ~SendReceive() override = default;
  [[nodiscard]] static Result<SendReceive*> create(Communicator& communicator) {
    Transfer* send = Transfer::slab().create(Kind::send);
    Transfer* receive = Transfer::slab().create(Kind::receive);
    SendReceive* made =
        send != nullptr && receive != nullptr ? slab().create(communicator, *send, *receive) : nullptr;
    if (made != nullptr) return made;
    for (Transfer* half : {send, receive})
      if (half != nullptr) Transfer::slab().destroy(half);
    return no_more_requests();
  }

  static Slab<SendReceive>& slab() {
    static auto& slab = *new Slab<SendReceive>(size_t{1} << 20);
    static const bool registered =
        (register_request_slab([](const void* handle) { return SendReceive::slab().check(handle); }), true);
    (void)registered;
    return slab;
  }

  void begin(const Half& send, const Half& receive) {
    types_ = {share(*send.buffer.type), share(*receive.buffer.type)};
    p2p::post_receive(*receive_, receive.buffer, receive.rank, receive.tag, *comm);
    p2p::post_send(*send_, send.buffer, send.rank, send.tag, *comm);
    comm->instance.add(*this);
    poll();
  }
  [[nodiscard]] core::Operands operands() const override {
    return receive_->complete() ? send_->operands() : receive_->operands();
  }
  Status cancel() override {
    WEFT_TRY(send_->cancel());
    return receive_->cancel();
  }
  void destroy() override {
    Transfer::slab().destroy(receive_);
    Transfer::slab().destroy(send_);
    comm->release();
    slab().destroy(this);
  }
  std::vector<std::byte> packed;  ///< send data of MPI_Isendrecv_replace
  Status checked;                 ///< of the buffer that was packed

 private:
  bool poll() override {
    if (!receive_->complete() || !send_->complete()) return false;
    comm->instance.remove(*this);
    completion = receive_->completion;
    outcome = std::move(receive_->outcome.ok() ? send_->outcome : receive_->outcome);
    if (outcome.ok()) outcome = std::move(checked);
    finish();
    return true;
  }
  static core::Ref<Datatype> share(const Datatype& type) {
    return core::Ref<Datatype>::share(const_cast<Datatype*>(&type));
  }
  Transfer *receive_, *send_;
  std::array<core::Ref<Datatype>, 2> types_;
};

Status blocking(const Half& send, const Half& receive, Communicator& comm, MPI_Status* status) {
  Transfer in(Kind::receive), out(Kind::send);
  p2p::post_receive(in, receive.buffer, receive.rank, receive.tag, comm);
  p2p::post_send(out, send.buffer, send.rank, send.tag, comm);
  core::wait(comm.instance, in);
  core::wait(comm.instance, out);
  fill(status, in.completion);
  return std::move(in.outcome.ok() ? out.outcome : in.outcome);
}

/// Packs the send data of a call that receives into the same buffer. `checked`: with WEFT_CHECK=gpu, the
/// error of a buffer that queued GPU work changes.
Status pack(const Buffer& buffer, int dest, Communicator& comm, std::vector<std::byte>& packed,
            Status& checked) {
  if (dest == MPI_PROC_NULL) return {};
  if (checking_gpu()) checked = check_input(buffer, comm);
  return p2p::pack_to_host(buffer, packed);
}

}  // namespace

namespace impl {

Status Sendrecv(const void* sendbuf, MPI_Count sendcount, Datatype& sendtype, int dest, int sendtag,
                void* recvbuf, MPI_Count recvcount, Datatype& recvtype, int source, int recvtag,
                Communicator& comm, MPI_Status* status) {
  return blocking({buffer_of(sendbuf, sendcount, sendtype), dest, sendtag},
                  {buffer_of(recvbuf, recvcount, recvtype), source, recvtag}, comm, status);
}

Status Sendrecv_replace(void* buf, MPI_Count count, Datatype& type, int dest, int sendtag, int source,
                        int recvtag, Communicator& comm, MPI_Status* status) {
  std::vector<std::byte> packed;
  Status checked;
  WEFT_TRY(pack(buffer_of(buf, count, type), dest, comm, packed, checked));
  WEFT_TRY(blocking({p2p::host_bytes(packed.data(), packed.size()), dest, sendtag},
                    {buffer_of(buf, count, type), source, recvtag}, comm, status));
  return checked;
}

Status Isendrecv(const void* sendbuf, MPI_Count sendcount, Datatype& sendtype, int dest, int sendtag,
                 void* recvbuf, MPI_Count recvcount, Datatype& recvtype, int source, int recvtag,
                 Communicator& comm, MPI_Request* request) {
  auto both = SendReceive::create(comm);
  if (!both) return std::move(both).error();
  *request = handle_of(**both);
  (*both)->begin({buffer_of(sendbuf, sendcount, sendtype), dest, sendtag},
                 {buffer_of(recvbuf, recvcount, recvtype), source, recvtag});
  return {};
}

Status Isendrecv_replace(void* buf, MPI_Count count, Datatype& type, int dest, int sendtag, int source,
                         int recvtag, Communicator& comm, MPI_Request* request) {
  std::vector<std::byte> packed;
  Status checked;
  WEFT_TRY(pack(buffer_of(buf, count, type), dest, comm, packed, checked));
  auto made = SendReceive::create(comm);
  if (!made) return std::move(made).error();
  SendReceive& both = **made;
  both.packed = std::move(packed);
  both.checked = std::move(checked);
  *request = handle_of(both);
  both.begin({p2p::host_bytes(both.packed.data(), both.packed.size()), dest, sendtag},
             {buffer_of(buf, count, type), source, recvtag});
  return {};
}

}  // namespace impl
}  // namespace weft::api
