// SPDX-License-Identifier: BSD-3-Clause
// The binary interface by which XLA calls foreign functions, version 0.x: what XLA passes to a handler, and
// the functions that it offers. Written for Weft after the published interface; only fields that handlers.cpp
// uses have names of their meaning. Every structure begins with its size in bytes, so that later versions can
// append fields.
#pragma once
#include <cstddef>
#include <cstdint>

namespace weft::jax::ffi {

struct Extension {
  size_t size;
  int32_t type;
  Extension* next;
};
constexpr int32_t kMetadataExtension = 1;

struct Version {
  size_t size;
  Extension* extensions;
  int32_t major, minor;
};
constexpr int32_t kMajor = 0, kMinor = 3;  ///< for which these declarations were written

/// Filled in by a handler that XLA calls with a MetadataExtension, in place of any work.
struct Metadata {
  size_t size;
  Version version;
  uint32_t traits;
  int64_t state_type;
};
/// A trait: the handler only puts work into the stream, so XLA may call it while it captures a graph.
constexpr uint32_t kCommandBufferCompatible = 1;
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

struct Error;  ///< of XLA; a handler that returns one gives it away
constexpr int32_t kInvalidArgument = 3, kInternal = 13;

struct CreateError {
  size_t size;
  Extension* extensions;
  const char* message;  ///< copied
  int32_t code;
};

/// Element types: xla::PrimitiveType.
enum Type : int32_t {
  kPred = 1,
  kS8 = 2,
  kS16 = 3,
  kS32 = 4,
  kS64 = 5,
  kU8 = 6,
  kU16 = 7,
  kU32 = 8,
  kU64 = 9,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kC64 = 15,
  kBF16 = 16,
  kToken = 17,
  kC128 = 18,
  kF8E5M2 = 19,
  kF8E4M3FN = 20
};

struct Array {
  size_t size;
  Extension* extensions;
  Type type;
  void* data;
  int64_t rank;
  const int64_t* dimensions;
};
constexpr int32_t kArrayKind = 1;

/// Operands, or results: addresses of Array where the kind is kArrayKind.
struct Arrays {
  size_t size;
  Extension* extensions;
  int64_t count;
  const int32_t* kinds;
  void* const* values;
};

struct Text {
  const char* data;
  size_t length;
};
struct Scalar {
  Type type;
  const void* value;
};
constexpr int32_t kScalarKind = 3;

struct Attributes {
  size_t size;
  Extension* extensions;
  int64_t count;
  const int32_t* kinds;
  Text* const* names;
  void* const* values;
};

struct Context;

struct GetStream {
  size_t size;
  Extension* extensions;
  Context* context;
  void* stream;  ///< result: CUstream
};

struct Api {
  size_t size;
  Extension* extensions;
  Version version;
  const void* internal;
  Error* (*create_error)(CreateError*);
  void (*get_message)(void*);
  void (*destroy_error)(void*);
  Error* (*register_handler)(void*);
  Error* (*get_stream)(GetStream*);
};

enum class Stage : int32_t { instantiate, prepare, initialize, execute };

struct Frame {
  size_t size;
  Extension* extensions;
  const Api* api;
  Context* context;
  Stage stage;
  Arrays operands, results;
  Attributes attributes;
};

}  // namespace weft::jax::ffi
