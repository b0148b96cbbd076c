// SPDX-License-Identifier: BSD-3-Clause
// Error codes: error strings, user-defined classes and codes, and their MPI functions.
#include "api/error_codes.hpp"

#include <mpi.h>
#include <weft.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "api/errors.hpp"
#include "api/impl.hpp"

namespace weft::api {

namespace {

constexpr ErrorClass kClasses[] = {
#define WEFT_CLASS(code, text) \
  { code, #code, text }
    WEFT_CLASS(MPI_SUCCESS, "no error"),
    WEFT_CLASS(MPI_ERR_BUFFER, "buffer address cannot be used here"),
    WEFT_CLASS(MPI_ERR_COUNT, "count is negative or too large"),
    WEFT_CLASS(MPI_ERR_TYPE, "datatype is null, freed, not committed or not allowed here"),
    WEFT_CLASS(MPI_ERR_TAG, "tag is out of range"),
    WEFT_CLASS(MPI_ERR_COMM, "communicator is null, freed or of the wrong kind"),
    WEFT_CLASS(MPI_ERR_RANK, "rank is not in the group"),
    WEFT_CLASS(MPI_ERR_REQUEST, "request is null, freed or of the wrong kind"),
    WEFT_CLASS(MPI_ERR_ROOT, "root is not in the group"),
    WEFT_CLASS(MPI_ERR_GROUP, "group is null, freed or does not fit"),
    WEFT_CLASS(MPI_ERR_OP, "reduction operation is null, freed or not defined for the datatype"),
    WEFT_CLASS(MPI_ERR_TOPOLOGY, "communicator does not have the topology that the call needs"),
    WEFT_CLASS(MPI_ERR_DIMS, "number or sizes of dimensions do not fit"),
    WEFT_CLASS(MPI_ERR_ARG, "argument is not valid"),
    WEFT_CLASS(MPI_ERR_UNKNOWN, "error of unknown kind"),
    WEFT_CLASS(MPI_ERR_TRUNCATE, "message is longer than the receive buffer"),
    WEFT_CLASS(MPI_ERR_OTHER, "error that has no class of its own"),
    WEFT_CLASS(MPI_ERR_INTERN, "error inside the MPI library"),
    WEFT_CLASS(MPI_ERR_PENDING, "operation is neither complete nor failed"),
    WEFT_CLASS(MPI_ERR_IN_STATUS, "the error codes are in the array of statuses"),
    WEFT_CLASS(MPI_ERR_ACCESS, "permission to access the file was denied"),
    WEFT_CLASS(MPI_ERR_AMODE, "access mode is not valid or differs between processes"),
    WEFT_CLASS(MPI_ERR_ASSERT, "assertion argument is not valid"),
    WEFT_CLASS(MPI_ERR_BAD_FILE, "file name is not valid"),
    WEFT_CLASS(MPI_ERR_BASE, "base address of the window is not valid"),
    WEFT_CLASS(MPI_ERR_CONVERSION, "data conversion function failed"),
    WEFT_CLASS(MPI_ERR_DISP, "displacement unit or position is not valid"),
    WEFT_CLASS(MPI_ERR_DUP_DATAREP, "a data representation of this name exists"),
    WEFT_CLASS(MPI_ERR_FILE_EXISTS, "file exists"),
    WEFT_CLASS(MPI_ERR_FILE_IN_USE, "file is open in some process"),
    WEFT_CLASS(MPI_ERR_FILE, "file handle is not valid"),
    WEFT_CLASS(MPI_ERR_INFO_KEY, "info key is too long or empty"),
    WEFT_CLASS(MPI_ERR_INFO_NOKEY, "info key does not exist"),
    WEFT_CLASS(MPI_ERR_INFO_VALUE, "invalid info value"),
    WEFT_CLASS(MPI_ERR_INFO, "info object is null or freed"),
    WEFT_CLASS(MPI_ERR_IO, "input or output failed"),
    WEFT_CLASS(MPI_ERR_KEYVAL, "attribute key is not valid"),
    WEFT_CLASS(MPI_ERR_LOCKTYPE, "lock type is not valid"),
    WEFT_CLASS(MPI_ERR_NAME, "service name is not published"),
    WEFT_CLASS(MPI_ERR_NO_MEM, "memory is exhausted"),
    WEFT_CLASS(MPI_ERR_NOT_SAME, "collective argument differs between processes"),
    WEFT_CLASS(MPI_ERR_NO_SPACE, "file system is full"),
    WEFT_CLASS(MPI_ERR_NO_SUCH_FILE, "file does not exist"),
    WEFT_CLASS(MPI_ERR_PORT, "port name is not valid"),
    WEFT_CLASS(MPI_ERR_QUOTA, "quota is exceeded"),
    WEFT_CLASS(MPI_ERR_READ_ONLY, "file or file system is read-only"),
    WEFT_CLASS(MPI_ERR_RMA_ATTACH, "memory cannot be attached to the window"),
    WEFT_CLASS(MPI_ERR_RMA_CONFLICT, "conflicting accesses to a window"),
    WEFT_CLASS(MPI_ERR_RMA_RANGE, "target memory is not part of the window"),
    WEFT_CLASS(MPI_ERR_RMA_SHARED, "memory cannot be shared between these processes"),
    WEFT_CLASS(MPI_ERR_RMA_SYNC, "window is not in the right synchronisation epoch"),
    WEFT_CLASS(MPI_ERR_SERVICE, "service name cannot be unpublished"),
    WEFT_CLASS(MPI_ERR_SIZE, "size is not valid"),
    WEFT_CLASS(MPI_ERR_SPAWN, "processes could not be started"),
    WEFT_CLASS(MPI_ERR_UNSUPPORTED_DATAREP, "data representation is not supported"),
    WEFT_CLASS(MPI_ERR_UNSUPPORTED_OPERATION, "operation is not supported"),
    WEFT_CLASS(MPI_ERR_WIN, "window is null, freed or of the wrong kind"),
    WEFT_CLASS(MPI_ERR_RMA_FLAVOR, "window has the wrong flavor"),
    WEFT_CLASS(MPI_ERR_PROC_ABORTED, "a process of the operation has terminated"),
    WEFT_CLASS(MPI_ERR_VALUE_TOO_LARGE, "value does not fit the output argument"),
    WEFT_CLASS(MPI_ERR_SESSION, "session is null or finalized"),
    WEFT_CLASS(MPI_ERR_ERRHANDLER, "error handler is null, freed or of the wrong kind"),
    WEFT_CLASS(MPI_ERR_ABI, "request conflicts with the application binary interface"),
    WEFT_CLASS(MPIX_ERR_PROC_FAILED, "a process that the operation needs has failed"),
    WEFT_CLASS(MPIX_ERR_PROC_FAILED_PENDING, "a process has failed; the receive stays active"),
    WEFT_CLASS(MPIX_ERR_REVOKED, "the communicator, window or file is revoked"),
    WEFT_CLASS(MPI_T_ERR_CANNOT_INIT, "tool interface cannot be initialized now"),
    WEFT_CLASS(MPI_T_ERR_NOT_ACCESSIBLE, "tool interface cannot be used now"),
    WEFT_CLASS(MPI_T_ERR_NOT_INITIALIZED, "tool interface is not initialized"),
    WEFT_CLASS(MPI_T_ERR_NOT_SUPPORTED, "tool interface does not support this"),
    WEFT_CLASS(MPI_T_ERR_MEMORY, "tool interface: memory is exhausted"),
    WEFT_CLASS(MPI_T_ERR_INVALID, "tool interface: argument is not valid"),
    WEFT_CLASS(MPI_T_ERR_INVALID_INDEX, "tool interface: index is not valid"),
    WEFT_CLASS(MPI_T_ERR_INVALID_ITEM, "tool interface: item index is not valid"),
    WEFT_CLASS(MPI_T_ERR_INVALID_SESSION, "tool interface: session is not valid"),
    WEFT_CLASS(MPI_T_ERR_INVALID_HANDLE, "tool interface: handle is not valid"),
    WEFT_CLASS(MPI_T_ERR_INVALID_NAME, "tool interface: name is not known"),
    WEFT_CLASS(MPI_T_ERR_OUT_OF_HANDLES, "tool interface: no handles left"),
    WEFT_CLASS(MPI_T_ERR_OUT_OF_SESSIONS, "tool interface: no sessions left"),
    WEFT_CLASS(MPI_T_ERR_CVAR_SET_NOT_NOW, "control variable cannot be set now"),
    WEFT_CLASS(MPI_T_ERR_CVAR_SET_NEVER, "control variable can never be set"),
    WEFT_CLASS(MPI_T_ERR_PVAR_NO_WRITE, "performance variable cannot be written"),
    WEFT_CLASS(MPI_T_ERR_PVAR_NO_STARTSTOP, "performance variable cannot be started or stopped"),
    WEFT_CLASS(MPI_T_ERR_PVAR_NO_ATOMIC, "performance variable cannot be read and reset at once"),
#undef WEFT_CLASS
};

// A code with a message: kMessageBit, the number of the message modulo 2^16, the error class. Below
// kMessageBit are the classes of the standard and user-defined codes.
constexpr int kMessageBit = 1 << 30, kClassBits = 14, kNumberBits = 16;
static_assert(MPI_ERR_LASTCODE < 1 << kClassBits && kClassBits + kNumberBits == 30);

constexpr int class_in(int code) { return code & ((1 << kClassBits) - 1); }
constexpr bool has_message(int code) { return code >= kMessageBit; }

/// The messages of the last errors of this process.
struct Messages {
  static constexpr uint32_t kCount = 256;
  struct Entry {
    int code = MPI_SUCCESS;
    std::string text;
  };
  std::mutex lock;
  uint32_t next = 0;
  Entry ring[kCount];
};
Messages& messages() {
  static auto* const known = new Messages;  // never destroyed: static destructors may call MPI
  return *known;
}

/// The message of a code; empty if kCount errors have followed.
std::string message_of(int code) {
  Messages& known = messages();
  const std::lock_guard guard(known.lock);
  const auto& entry = known.ring[(static_cast<uint32_t>(code) >> kClassBits) % Messages::kCount];
  return entry.code == code ? entry.text : "";
}

/// A user-defined class or code.
struct UserCode {
  int class_code;  ///< equal to its own number: a class
  std::string text;
  int codes = 0;  ///< of a class: number of its codes
};
int last_code = MPI_ERR_LASTCODE;  // numbers are never reused

std::map<int, UserCode>& user_codes() {
  static std::map<int, UserCode> codes;
  return codes;
}

UserCode* find_user(int code) {
  auto& codes = user_codes();
  const auto found = codes.find(code);
  return found == codes.end() ? nullptr : &found->second;
}

Status add_user(int class_code, int* code) {
  if (last_code == kMessageBit - 1)
    return Error(Errc::no_mem, "no number is left for a new error class or code");
  *code = last_code + 1;
  user_codes().emplace(*code, UserCode{class_code == 0 ? *code : class_code, "", 0});
  last_code = *code;
  if (UserCode* user = find_user(class_code)) ++user->codes;
  return {};
}

Error unknown(const char* name, int code) {
  return {Errc::arg, std::string(name) + " = " + std::to_string(code) +
                         " is not an error code: pass a class of the standard or a user-defined code"};
}

/// Returns true for a class of the standard, a user-defined code and a code with a message.
bool is_code(int code) {
  return standard_class(has_message(code) ? class_in(code) : code) != nullptr || find_user(code) != nullptr;
}

Error not_user_defined(const char* name, int code) {
  return {Errc::arg, std::string(name) + " = " + std::to_string(code) +
                         " is not user-defined: pass one from MPI_Add_error_class or MPI_Add_error_code"};
}

Status check_no_string(const char* name, const UserCode& user) {
  if (user.text.empty()) return {};
  return Error(Errc::arg,
               std::string(name) + " still has an error string: call MPI_Remove_error_string first");
}

}  // namespace

const ErrorClass* standard_class(int code) {
  const auto* found = std::find_if(std::begin(kClasses), std::end(kClasses),
                                   [code](const ErrorClass& candidate) { return candidate.code == code; });
  return found == std::end(kClasses) ? nullptr : found;
}

int code_with_message(int code, const std::string& message) {
  if (standard_class(code) == nullptr || code == MPI_SUCCESS || code == MPI_ERR_IN_STATUS ||
      code == MPI_ERR_PENDING)
    return code;
  Messages& known = messages();
  const std::lock_guard guard(known.lock);
  const uint32_t number = known.next++ & ((1u << kNumberBits) - 1);
  const int made = kMessageBit | static_cast<int>(number << kClassBits) | code;
  known.ring[number % Messages::kCount] = {made, message};
  return made;
}

std::string error_text(int code) {
  std::string message;
  if (has_message(code)) {
    message = message_of(code);
    code = class_in(code);
  } else if (code == MPI_ERR_IN_STATUS && last_error().code == code) {
    message = last_error().message;
  }
  if (const ErrorClass* known = standard_class(code))
    return std::string(known->name) + ": " + (message.empty() ? known->text : message);
  const UserCode* user = find_user(code);
  return user != nullptr ? user->text : "";
}

std::string code_name(int code) {
  if (has_message(code)) code = class_in(code);
  if (const ErrorClass* known = standard_class(code)) return known->name;
  return "user error code " + std::to_string(code);
}

int class_of(int code) {
  if (has_message(code)) code = class_in(code);
  if (standard_class(code) != nullptr) return code;
  const UserCode* user = find_user(code);
  return user != nullptr ? user->class_code : MPI_ERR_UNKNOWN;
}

int last_used_code() { return last_code; }

namespace impl {

Status Error_class(int errorcode, int* errorclass) {
  if (!is_code(errorcode)) return unknown("errorcode", errorcode);
  *errorclass = class_of(errorcode);
  return {};
}

Status Error_string(int errorcode, char* string, int* resultlen) {
  if (!is_code(errorcode)) return unknown("errorcode", errorcode);
  std::string text = error_text(errorcode);
  constexpr size_t kMaxLength = MPI_MAX_ERROR_STRING - 1;
  if (text.size() > kMaxLength) text = text.substr(0, kMaxLength - 3) + "...";
  std::memcpy(string, text.c_str(), text.size() + 1);
  *resultlen = static_cast<int>(text.size());
  return {};
}

Status Add_error_class(int* errorclass) { return add_user(0, errorclass); }

Status Add_error_code(int errorclass, int* errorcode) {
  if (errorclass == MPI_SUCCESS || class_of(errorclass) != errorclass ||
      (standard_class(errorclass) == nullptr && find_user(errorclass) == nullptr))
    return Error(Errc::arg, "errorclass = " + std::to_string(errorclass) + " is not an error class");
  return add_user(errorclass, errorcode);
}

Status Add_error_string(int errorcode, const char* string) {
  UserCode* user = find_user(errorcode);
  if (user == nullptr) return not_user_defined("errorcode", errorcode);
  const size_t length = std::strlen(string);
  if (length >= MPI_MAX_ERROR_STRING)
    return Error(Errc::arg, "string has " + std::to_string(length) + " characters: at most " +
                                std::to_string(MPI_MAX_ERROR_STRING - 1) + " (MPI_MAX_ERROR_STRING - 1)");
  user->text = string;
  return {};
}

Status Remove_error_class(int errorclass) {
  UserCode* user = find_user(errorclass);
  if (user == nullptr || user->class_code != errorclass) return not_user_defined("errorclass", errorclass);
  if (user->codes != 0)
    return Error(Errc::arg, "errorclass = " + std::to_string(errorclass) +
                                " still has error codes: call MPI_Remove_error_code first");
  WEFT_TRY(check_no_string("errorclass", *user));
  user_codes().erase(errorclass);
  return {};
}

Status Remove_error_code(int errorcode) {
  UserCode* user = find_user(errorcode);
  if (user == nullptr || user->class_code == errorcode) return not_user_defined("errorcode", errorcode);
  WEFT_TRY(check_no_string("errorcode", *user));
  if (UserCode* owner = find_user(user->class_code)) --owner->codes;
  user_codes().erase(errorcode);
  return {};
}

Status Remove_error_string(int errorcode) {
  UserCode* user = find_user(errorcode);
  if (user == nullptr) return not_user_defined("errorcode", errorcode);
  user->text.clear();
  return {};
}

}  // namespace impl

}  // namespace weft::api
