// SPDX-License-Identifier: BSD-3-Clause
#include "io/backend/error.hpp"

#include <cerrno>
#include <system_error>

namespace weft::io {
namespace {

ErrorClass class_of(int number) {
  switch (number) {
    case ENOENT:
      return ErrorClass::no_such_file;
    case EEXIST:
      return ErrorClass::file_exists;
    case EACCES:
    case EPERM:
      return ErrorClass::access;
    case EROFS:
      return ErrorClass::read_only;
    case EISDIR:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP:
    case ENXIO:
      return ErrorClass::bad_file;
    case ENOSPC:
    case EFBIG:
      return ErrorClass::no_space;
    case EDQUOT:
      return ErrorClass::quota;
    case EBUSY:
    case ETXTBSY:
      return ErrorClass::file_in_use;
    case ENOMEM:
      return ErrorClass::no_mem;
    case EOPNOTSUPP:
      return ErrorClass::unsupported_operation;
    default:
      return ErrorClass::io;
  }
}

}  // namespace

Error system_error(const std::string& operation, const std::string& path, int number) {
  return error(class_of(number),
               "cannot " + operation + " " + path + ": " + std::generic_category().message(number));
}

}  // namespace weft::io
