// SPDX-License-Identifier: BSD-3-Clause
// MPI_Pack and MPI_Unpack (MPI 5.0 section 5.2); the format "external32" (section 5.3).
#include <cstring>
#include <string>

#include "api/handles.hpp"
#include "api/impl.hpp"
#include "coll/schedule/copy.hpp"
#include "datatype/datatype.hpp"
#include "datatype/external.hpp"
#include "device/memory.hpp"

namespace weft::api::impl {
namespace {

using datatype::Datatype;

Status on_host(const char* name, const void* buffer) {
  if (!device::classify(buffer).on_device()) return {};
  return Error(Errc::unsupported,
               std::string(name) +
                   " is in device memory (external32 conversion runs on the host): pass a host buffer");
}

/// `bytes` packed bytes at `address`. A source buffer is never written, hence the const_cast.
p2p::Buffer packed(const void* address, MPI_Count bytes) {
  return {const_cast<void*>(address), bytes, to_datatype(MPI_PACKED)};
}

/// `name`: of the argument `count`.
Result<MPI_Count> bytes_of_data(const Datatype& type, const char* name, MPI_Count count) {
  if (const auto size = datatype::packed_size(type, count)) return *size;
  return Error(Errc::value_too_large,
               std::string(name) + " = " + std::to_string(count) + " (elements of " +
                   std::to_string(type.size()) +
                   " bytes): the packed size does not fit 64 bits: pass a smaller count");
}

/// Checks that [position, position + bytes) lies in a buffer of `size` bytes.
Status check_capacity(MPI_Count position, MPI_Count bytes, MPI_Count size, const char* buffer) {
  if (position < 0 || position > size)
    return Error(Errc::arg, "position = " + std::to_string(position) + ": use 0 to the size of " + buffer +
                                ", " + std::to_string(size));
  if (bytes > size - position)
    return Error(Errc::truncate, std::string(buffer) + " has " + std::to_string(size - position) +
                                     " bytes after position, the data needs " + std::to_string(bytes) +
                                     " (see MPI_Pack_size)");
  return {};
}

Status check_representation(const char* name) {
  if (std::strcmp(name, "external32") == 0) return {};
  return Error(Errc::arg, std::string("datarep = \"") + name + "\": only \"external32\" is defined");
}

}  // namespace

Status Pack(const void* inbuf, MPI_Count incount, Datatype& type, void* outbuf, MPI_Count outsize,
            MPI_Count* position, core::Communicator&) {
  auto bytes = bytes_of_data(type, "incount", incount);
  if (!bytes) return std::move(bytes).error();
  WEFT_TRY(check_capacity(*position, *bytes, outsize, "outbuf"));
  WEFT_TRY(coll::local_copy(packed(static_cast<char*>(outbuf) + *position, *bytes),
                            {const_cast<void*>(inbuf), incount, &type}));
  *position += *bytes;
  return {};
}

Status Unpack(const void* inbuf, MPI_Count insize, MPI_Count* position, void* outbuf, MPI_Count outcount,
              Datatype& type, core::Communicator&) {
  auto bytes = bytes_of_data(type, "outcount", outcount);
  if (!bytes) return std::move(bytes).error();
  WEFT_TRY(check_capacity(*position, *bytes, insize, "inbuf"));
  WEFT_TRY(coll::local_copy({outbuf, outcount, &type},
                            packed(static_cast<const char*>(inbuf) + *position, *bytes)));
  *position += *bytes;
  return {};
}

Status Pack_size(MPI_Count incount, Datatype& type, core::Communicator&, MPI_Count* size) {
  auto bytes = bytes_of_data(type, "incount", incount);
  if (!bytes) return std::move(bytes).error();
  *size = *bytes;
  return {};
}

Status Pack_external_size(const char* datarep, MPI_Count incount, Datatype& type, MPI_Count* size) {
  WEFT_TRY(check_representation(datarep));
  auto bytes = datatype::external_size(type, incount);
  if (!bytes) return std::move(bytes).error();
  *size = *bytes;
  return {};
}

Status Pack_external(const char* datarep, const void* inbuf, MPI_Count incount, Datatype& type, void* outbuf,
                     MPI_Count outsize, MPI_Count* position) {
  WEFT_TRY(check_representation(datarep));
  auto bytes = datatype::external_size(type, incount);
  if (!bytes) return std::move(bytes).error();
  WEFT_TRY(check_capacity(*position, *bytes, outsize, "outbuf"));
  WEFT_TRY(on_host("inbuf", inbuf));
  WEFT_TRY(on_host("outbuf", outbuf));
  WEFT_TRY(datatype::pack_external(type, incount, inbuf, static_cast<char*>(outbuf) + *position));
  *position += *bytes;
  return {};
}

Status Unpack_external(const char* datarep, const void* inbuf, MPI_Count insize, MPI_Count* position,
                       void* outbuf, MPI_Count outcount, Datatype& type) {
  WEFT_TRY(check_representation(datarep));
  auto bytes = datatype::external_size(type, outcount);
  if (!bytes) return std::move(bytes).error();
  WEFT_TRY(check_capacity(*position, *bytes, insize, "inbuf"));
  WEFT_TRY(on_host("inbuf", inbuf));
  WEFT_TRY(on_host("outbuf", outbuf));
  WEFT_TRY(datatype::unpack_external(type, outcount, outbuf, static_cast<const char*>(inbuf) + *position));
  *position += *bytes;
  return {};
}

}  // namespace weft::api::impl
