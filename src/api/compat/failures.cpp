// SPDX-License-Identifier: BSD-3-Clause
// Fault tolerance: functions of the proposal User-Level Failure Mitigation that both interfaces have under
// MPIX_.
#include <new>

#include "api/compat/translate.hpp"

namespace weft::compat {

WEFT_COMPAT_NAMED(int, X_Comm_revoke, (Handle comm), "MPIX_Comm_revoke") {
  return out_error(extensions.Comm_revoke(in<Comm>(comm)));
}

WEFT_COMPAT_NAMED(int, X_Comm_is_revoked, (Handle comm, int* flag), "MPIX_Comm_is_revoked") {
  return out_error(extensions.Comm_is_revoked(in<Comm>(comm), flag));
}

WEFT_COMPAT_NAMED(int, X_Comm_get_failed, (Handle comm, Handle* failed), "MPIX_Comm_get_failed") try {
  HandleOut<Group> group(failed);
  const int code = extensions.Comm_get_failed(in<Comm>(comm), group.get());
  group.finish();
  return out_error(code);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

WEFT_COMPAT_NAMED(int, X_Comm_ack_failed, (Handle comm, int count, int* acknowledged),
                  "MPIX_Comm_ack_failed") {
  return out_error(extensions.Comm_ack_failed(in<Comm>(comm), count, acknowledged));
}

WEFT_COMPAT_NAMED(int, X_Comm_failure_ack, (Handle comm), "MPIX_Comm_failure_ack") {
  return out_error(extensions.Comm_failure_ack(in<Comm>(comm)));
}

WEFT_COMPAT_NAMED(int, X_Comm_failure_get_acked, (Handle comm, Handle* failed), "MPIX_Comm_failure_get_acked")
try {
  HandleOut<Group> group(failed);
  const int code = extensions.Comm_failure_get_acked(in<Comm>(comm), group.get());
  group.finish();
  return out_error(code);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

WEFT_COMPAT_NAMED(int, X_Comm_agree, (Handle comm, int* flag), "MPIX_Comm_agree") {
  return out_error(extensions.Comm_agree(in<Comm>(comm), flag));
}

WEFT_COMPAT_NAMED(int, X_Comm_iagree, (Handle comm, int* flag, Handle* request), "MPIX_Comm_iagree") try {
  HandleOut<Request> made(request);
  const int code = extensions.Comm_iagree(in<Comm>(comm), flag, made.get());
  made.finish();
  return out_error(code);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

WEFT_COMPAT_NAMED(int, X_Comm_shrink, (Handle comm, Handle* shrunk), "MPIX_Comm_shrink") try {
  HandleOut<Comm> made(shrunk);
  const int code = extensions.Comm_shrink(in<Comm>(comm), made.get());
  made.finish();
  return out_error(code);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace weft::compat
