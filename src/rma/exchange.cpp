// SPDX-License-Identifier: BSD-3-Clause
#include "rma/exchange.hpp"

#include "coll/schedule/records.hpp"

namespace weft::rma {

Status exchange(coll::Collective what, core::Communicator& comm, const void* out, void* in, size_t bytes) {
  return coll::run(coll::record_call(what, comm, out, in, bytes));
}

Status barrier(core::Communicator& comm) {
  return coll::run(coll::record_call(coll::Collective::barrier, comm));
}

}  // namespace weft::rma
