// SPDX-License-Identifier: BSD-3-Clause
#include "coll/schedule/records.hpp"

namespace weft::coll {

Call record_call(Collective what, core::Communicator& comm, const void* out, void* in, size_t bytes) {
  Call call;
  call.what = what;
  call.comm = &comm;
  call.rank = comm.rank();
  call.size = comm.size();
  if (bytes == 0) return call;
  call.send.type = call.recv.type = packed(nullptr, 0).type;
  call.send.blocks = call.recv.blocks = call.size;
  call.send.classified = call.recv.classified = true;  // host memory
  call.send.address = const_cast<void*>(out);
  call.recv.address = in;
  call.send.count = call.recv.count = static_cast<int64_t>(bytes);
  call.bytes = bytes;
  return call;
}

}  // namespace weft::coll
