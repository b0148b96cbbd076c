// SPDX-License-Identifier: BSD-3-Clause
// Result: return type of every fallible function below api/. Success costs one null pointer; an error has a
// class and a message "problem (why): what to do", written where the error is detected.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace weft {

/// Error classes inside Weft. api/errors.cpp maps them to MPI error classes.
enum class Errc : unsigned char {
  buffer = 1,
  count,
  type,
  tag,
  comm,
  rank,
  root,
  group,
  op,
  arg,
  truncate,
  other,
  intern,
  request,
  pending,
  no_mem,
  keyval,
  info,
  info_key,
  info_value,
  errhandler,
  topology,
  dims,
  name,
  session,
  value_too_large,
  unsupported,
  window,
  file,
  io,
  proc_aborted,
  proc_failed_pending,
  revoked,
  again,
  abi,
  port,
  service,
  spawn
};

/// Error class and message for the user.
class [[nodiscard]] Error {
 public:
  /// `mpi_code`: MPI error code that Errc cannot express, e.g. one returned by a user callback; 0: none.
  Error(Errc code, std::string message, int mpi_code = 0)
      : data_(std::make_unique<Data>(Data{code, mpi_code, std::move(message)})) {}
  [[nodiscard]] Errc code() const { return data_->code; }
  /// 0: derived from code().
  [[nodiscard]] int mpi_code() const { return data_->mpi_code; }
  [[nodiscard]] const std::string& message() const { return data_->message; }
  /// Explicit copy, for several requests that fail with the same error.
  [[nodiscard]] Error copy() const { return {code(), message(), mpi_code()}; }

 private:
  struct Data {
    Errc code;
    int mpi_code;
    std::string message;
  };
  std::unique_ptr<Data> data_;
  template <class T>
  friend class Result;
  Error() = default;
};

/// A value or an Error. Usage: `if (!r) return std::move(r).error();`
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  explicit operator bool() const { return value_.has_value(); }
  [[nodiscard]] bool ok() const { return value_.has_value(); }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T* operator->() { return &*value_; }
  [[nodiscard]] const Error& error() const& { return error_; }
  [[nodiscard]] Error&& error() && { return std::move(error_); }

 private:
  std::optional<T> value_;
  Error error_;
};

/// Success or an Error; one pointer wide.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  explicit operator bool() const { return ok(); }
  [[nodiscard]] bool ok() const { return error_.data_ == nullptr; }
  [[nodiscard]] const Error& error() const& { return error_; }
  [[nodiscard]] Error&& error() && { return std::move(error_); }

 private:
  Error error_;
};

using Status = Result<void>;

}  // namespace weft

#define WEFT_CONCAT_(a, b) a##b
#define WEFT_CONCAT(a, b) WEFT_CONCAT_(a, b)
/// Returns the error of a failed Result from the enclosing function.
#define WEFT_TRY(expression)                                         \
  do {                                                               \
    if (auto weft_try_ = (expression); !weft_try_.ok()) [[unlikely]] \
      return std::move(weft_try_).error();                           \
  } while (0)
