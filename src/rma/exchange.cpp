// SPDX-License-Identifier: BSD-3-Clause
#include "rma/exchange.hpp"

namespace weft::rma {
namespace {

coll::Call call_of(coll::Collective what, core::Communicator& comm) {
  coll::Call call;
  call.what = what;
  call.comm = &comm;
  call.rank = comm.rank();
  call.size = comm.size();
  return call;
}

}  // namespace

Status exchange(coll::Collective what, core::Communicator& comm, const void* out, void* in, size_t bytes) {
  coll::Call call = call_of(what, comm);
  call.send.type = call.recv.type = coll::packed(nullptr, 0).type;
  call.send.blocks = call.recv.blocks = call.size;
  call.send.classified = call.recv.classified = true;  // host memory
  call.send.address = const_cast<void*>(out);
  call.recv.address = in;
  call.send.count = call.recv.count = static_cast<int64_t>(bytes);
  call.bytes = bytes;
  return coll::run(call);
}

Status barrier(core::Communicator& comm) { return coll::run(call_of(coll::Collective::barrier, comm)); }

}  // namespace weft::rma
