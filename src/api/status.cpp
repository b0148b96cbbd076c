// SPDX-License-Identifier: BSD-3-Clause
// Status: access to the fields of MPI_Status (MPI 5.0 sections 3.2.5, 3.8.4 and 13.3).
#include "api/status.hpp"

#include "api/impl.hpp"

namespace weft::api::impl {

Status Status_get_source(const MPI_Status* status, int* source) {
  *source = status->MPI_SOURCE;
  return {};
}

Status Status_get_tag(const MPI_Status* status, int* tag) {
  *tag = status->MPI_TAG;
  return {};
}

Status Status_get_error(const MPI_Status* status, int* error) {
  *error = status->MPI_ERROR;
  return {};
}

Status Status_set_source(MPI_Status* status, int source) {
  status->MPI_SOURCE = source;
  return {};
}

Status Status_set_tag(MPI_Status* status, int tag) {
  status->MPI_TAG = tag;
  return {};
}

Status Status_set_error(MPI_Status* status, int error) {
  status->MPI_ERROR = error;
  return {};
}

Status Status_set_cancelled(MPI_Status* status, int flag) {
  set_cancelled(*status, flag != 0);
  return {};
}

Status Test_cancelled(const MPI_Status* status, int* flag) {
  *flag = cancelled(*status) ? 1 : 0;
  return {};
}

}  // namespace weft::api::impl
