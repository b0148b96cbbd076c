// SPDX-License-Identifier: BSD-3-Clause
// PMIx ABI: subset of libpmix.so.2 used by Weft, as defined by the PMIx Standard (versions 3 to 5), so that
// building needs no PMIx headers. test/launch/pmix_abi.cpp compares it with the headers if installed.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace weft::launch::pmix {

inline constexpr size_t kNameBytes = 256, kKeyBytes = 512;
inline constexpr uint32_t kRankWildcard = UINT32_MAX - 1;  // PMIX_RANK_WILDCARD

struct Proc {
  char space[kNameBytes];
  uint32_t rank;
};

struct ByteObject {
  char* bytes;
  size_t size;
};

enum class Type : uint16_t {
  boolean = 1,
  string = 3,
  integer = 6,
  uint16 = 13,
  uint32 = 14,
  bytes = 27,
  process_info = 38,
  array = 39,
  rank = 40
};

struct DataArray {
  Type type;
  size_t size;
  void* elements;
};

struct Value {
  Type type;
  union {
    bool flag;
    char* string;
    int integer;
    uint16_t uint16;
    uint32_t uint32;
    ByteObject bytes;
    DataArray* array;
    char padding[24];  // size of the largest member in PMIx
  } data;
};

struct Info {
  char key[kKeyBytes];
  uint32_t flags;
  Value value;
};

static_assert(sizeof(Proc) == 260 && sizeof(Value) == 32 && sizeof(Info) == 552);

/// A program of a job that is spawned.
struct App {
  char* command;
  char** arguments;    ///< with the command, ends with null
  char** environment;  ///< additions NAME=VALUE, ends with null
  char* directory;
  int processes;
  Info* infos;
  size_t info_count;
};

/// A value that is looked up by its key.
struct Published {
  Proc proc;
  char key[kKeyBytes];
  Value value;
};

struct Query {
  char** keys;  ///< ends with null
  Info* qualifiers;
  size_t qualifier_count;
};

struct ProcessInfo {
  Proc proc;
  char* host;
  char* executable;
  pid_t pid;
  int exit_code;
  uint8_t state;
};

enum : int {
  kSuccess = 0,
  kError = -1,
  kTimeout = -24,
  kUnreachable = -25,
  kNotFound = -46,
  kNotSupported = -47
};
inline constexpr uint8_t kGlobal = 3;  // PMIX_GLOBAL: scope of a put

/// Functions of libpmix under their original names.
struct Functions {
  int (*PMIx_Init)(Proc* self, Info info[], size_t infos);
  int (*PMIx_Finalize)(const Info info[], size_t infos);
  int (*PMIx_Abort)(int status, const char* message, Proc procs[], size_t count);
  int (*PMIx_Put)(uint8_t scope, const char* key, Value* value);
  int (*PMIx_Commit)();
  int (*PMIx_Fence)(const Proc procs[], size_t count, const Info info[], size_t infos);
  int (*PMIx_Get)(const Proc* proc, const char* key, const Info info[], size_t infos, Value** value);
  int (*PMIx_Resolve_peers)(const char* node, const char* space, Proc** procs, size_t* count);
  int (*PMIx_Resolve_nodes)(const char* space, char** nodes);
  int (*PMIx_Spawn)(const Info infos[], size_t count, const App apps[], size_t app_count, char* space);
  int (*PMIx_Publish)(const Info infos[], size_t count);
  int (*PMIx_Lookup)(Published data[], size_t count, const Info infos[], size_t infos_count);
  int (*PMIx_Unpublish)(char** keys, const Info infos[], size_t count);
  /// Null before PMIx 4.
  int (*PMIx_Query_info)(Query queries[], size_t count, Info** results, size_t* result_count);
  const char* (*PMIx_Error_string)(int status);
  const char* (*PMIx_Get_version)();
};

}  // namespace weft::launch::pmix
