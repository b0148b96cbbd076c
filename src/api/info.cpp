// SPDX-License-Identifier: BSD-3-Clause
// Info objects (MPI 5.0 chapter 10).
#include <algorithm>
#include <string>

#include "api/check.hpp"
#include "api/impl.hpp"
#include "api/objects.hpp"

namespace weft::api::impl {
namespace {

/// A key must have 1 to MPI_MAX_INFO_KEY - 1 characters.
Status check_key(const char* key) {
  const size_t length = strnlen(key, MPI_MAX_INFO_KEY);
  if (length != 0 && length < MPI_MAX_INFO_KEY) return {};
  return Error(Errc::info_key, length == 0
                                   ? "key is empty: pass at least one character"
                                   : "key is longer than the " + std::to_string(MPI_MAX_INFO_KEY - 1) +
                                         " characters of MPI_MAX_INFO_KEY - 1");
}

Status check_value(const char* value) {
  if (strnlen(value, MPI_MAX_INFO_VAL) < MPI_MAX_INFO_VAL) return {};
  return Error(Errc::info_value, "value is longer than the " + std::to_string(MPI_MAX_INFO_VAL - 1) +
                                     " characters of MPI_MAX_INFO_VAL - 1");
}

Status check_writable(const core::Info* info) {
  if (info != core::Info::environment()) return {};
  return Error(Errc::info, "info is MPI_INFO_ENV, which is read-only: modify a copy (MPI_Info_dup)");
}

}  // namespace

Status Info_create(MPI_Info* info) { return return_new_object(core::Info::create(), info); }

Status Info_create_env(int argc, char** argv, MPI_Info* info) {
  if (argc > 0 && argv == nullptr) return null_pointer("argv");
  std::vector<std::string> arguments;
  for (int i = 0; i < argc && argv[i] != nullptr; ++i) arguments.emplace_back(argv[i]);
  return return_new_object(core::Info::create_environment(arguments), info);
}

Status Info_dup(core::Info* info, MPI_Info* newinfo) {
  return return_new_object(core::Info::duplicate(*info), newinfo);
}

Status Info_free(MPI_Info* handle) {
  core::Info* info = to_info(*handle);
  WEFT_TRY(check_writable(info));
  if (!info->has_handle()) return bad_handle(HandleKind::info, "info", *handle);
  info->close_handle();
  *handle = MPI_INFO_NULL;
  return {};
}

Status Info_set(core::Info* info, const char* key, const char* value) {
  WEFT_TRY(check_writable(info));
  WEFT_TRY(check_key(key));
  WEFT_TRY(check_value(value));
  info->set(key, value);
  return {};
}

Status Info_delete(core::Info* info, const char* key) {
  WEFT_TRY(check_writable(info));
  WEFT_TRY(check_key(key));
  if (info->erase(key)) return {};
  return mpi_error(MPI_ERR_INFO_NOKEY, "info has no key \"" + std::string(key) + "\"");
}

Status Info_get_nkeys(core::Info* info, int* nkeys) {
  *nkeys = static_cast<int>(info->size());
  return {};
}

Status Info_get_nthkey(core::Info* info, int n, char* key) {
  if (n < 0 || static_cast<size_t>(n) >= info->size())
    return Error(Errc::arg, "n = " + std::to_string(n) + " (info has " + std::to_string(info->size()) +
                                " keys): use 0 to nkeys - 1");
  int length = 0;
  copy_text(info->entry(static_cast<size_t>(n)).first, key, MPI_MAX_INFO_KEY, &length);
  return {};
}

Status Info_get_valuelen(core::Info* info, const char* key, int* valuelen, int* flag) {
  WEFT_TRY(check_key(key));
  const auto value = info->get(key);
  *flag = value.has_value();
  if (value) *valuelen = static_cast<int>(value->size());
  return {};
}

Status Info_get(core::Info* info, const char* key, int valuelen, char* value, int* flag) {
  WEFT_TRY(check_key(key));
  if (valuelen < 0) return negative(Errc::arg, "valuelen", valuelen);
  const auto found = info->get(key);
  *flag = found.has_value();
  int length = 0;
  if (found) copy_text(*found, value, static_cast<size_t>(valuelen) + 1, &length);
  return {};
}

Status Info_get_string(core::Info* info, const char* key, int* buflen, char* value, int* flag) {
  WEFT_TRY(check_key(key));
  if (*buflen < 0) return negative(Errc::arg, "buflen", *buflen);
  if (*buflen > 0 && value == nullptr) return null_pointer("value");
  const auto found = info->get(key);
  *flag = found.has_value();
  if (!found) return {};
  int length = 0;
  if (*buflen > 0) copy_text(*found, value, static_cast<size_t>(*buflen), &length);
  *buflen = static_cast<int>(found->size()) + 1;
  return {};
}

}  // namespace weft::api::impl
