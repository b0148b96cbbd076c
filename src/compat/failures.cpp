// SPDX-License-Identifier: BSD-3-Clause
// Fault tolerance: functions of the proposal User-Level Failure Mitigation that both interfaces have under
// MPIX_.
#include "compat/translate.hpp"

namespace weft::compat {

WEFT_COMPAT_NAMED(int, X_Comm_revoke, (Handle comm), "MPIX_Comm_revoke") {
  return out_error(extensions.Comm_revoke(in<Comm>(comm)));
}

WEFT_COMPAT_NAMED(int, X_Comm_is_revoked, (Handle comm, int* flag), "MPIX_Comm_is_revoked") {
  return out_error(extensions.Comm_is_revoked(in<Comm>(comm), flag));
}

WEFT_COMPAT_NAMED(int, X_Comm_get_failed, (Handle comm, Handle* failed), "MPIX_Comm_get_failed") {
  return with_handle<Group>(
      failed, [&](Group::Native* made) { return extensions.Comm_get_failed(in<Comm>(comm), made); });
}

WEFT_COMPAT_NAMED(int, X_Comm_ack_failed, (Handle comm, int count, int* acknowledged),
                  "MPIX_Comm_ack_failed") {
  return out_error(extensions.Comm_ack_failed(in<Comm>(comm), count, acknowledged));
}

WEFT_COMPAT_NAMED(int, X_Comm_failure_ack, (Handle comm), "MPIX_Comm_failure_ack") {
  return out_error(extensions.Comm_failure_ack(in<Comm>(comm)));
}

WEFT_COMPAT_NAMED(int, X_Comm_failure_get_acked, (Handle comm, Handle* failed),
                  "MPIX_Comm_failure_get_acked") {
  return with_handle<Group>(
      failed, [&](Group::Native* made) { return extensions.Comm_failure_get_acked(in<Comm>(comm), made); });
}

WEFT_COMPAT_NAMED(int, X_Comm_agree, (Handle comm, int* flag), "MPIX_Comm_agree") {
  return out_error(extensions.Comm_agree(in<Comm>(comm), flag));
}

WEFT_COMPAT_NAMED(int, X_Comm_iagree, (Handle comm, int* flag, Handle* request), "MPIX_Comm_iagree") {
  return with_handle<Request>(
      request, [&](Request::Native* made) { return extensions.Comm_iagree(in<Comm>(comm), flag, made); });
}

WEFT_COMPAT_NAMED(int, X_Comm_shrink, (Handle comm, Handle* shrunk), "MPIX_Comm_shrink") {
  return with_handle<Comm>(shrunk,
                           [&](Comm::Native* made) { return extensions.Comm_shrink(in<Comm>(comm), made); });
}

}  // namespace weft::compat
