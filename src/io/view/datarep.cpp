// SPDX-License-Identifier: BSD-3-Clause
#include "io/view/datarep.hpp"

#include <map>
#include <utility>

#include "datatype/external.hpp"
#include "io/backend/error.hpp"

namespace weft::io {
namespace {

/// The external32 format, for types that have the same size in it.
Datarep external32() {
  Datarep datarep;
  datarep.name = "external32";
  datarep.extent = [](datatype::Datatype& type) -> Result<int64_t> {
    auto size = datatype::external_size(type, 1);
    if (!size) return std::move(size).error();
    if (*size != type.size())
      return error(ErrorClass::unsupported_datarep,
                   "a type has " + std::to_string(*size) + " bytes in external32 and " +
                       std::to_string(type.size()) + " in memory: files of such types are not supported");
    return type.extent();
  };
  const auto checked = [extent = datarep.extent](datatype::Datatype& type) -> Status {
    auto size = extent(type);
    return size ? Status() : std::move(size).error();
  };
  datarep.read = [checked](void* user, datatype::Datatype& type, int64_t count, void* file) -> Status {
    WEFT_TRY(checked(type));
    return datatype::unpack_external(type, count, user, file);
  };
  datarep.write = [checked](void* user, datatype::Datatype& type, int64_t count, void* file) -> Status {
    WEFT_TRY(checked(type));
    return datatype::pack_external(type, count, user, file);
  };
  return datarep;
}

std::map<std::string, Datarep, std::less<>>& datareps() {
  static auto& all = *new std::map<std::string, Datarep, std::less<>>{{"external32", external32()}};
  return all;
}

bool stores_native(std::string_view name) { return name == "native" || name == "internal"; }

}  // namespace

Result<const Datarep*> find_datarep(std::string_view name) {
  if (stores_native(name)) return static_cast<const Datarep*>(nullptr);
  const auto found = datareps().find(name);
  if (found == datareps().end())
    return error(ErrorClass::unsupported_datarep,
                 "datarep = \"" + std::string(name) +
                     "\" is unknown: use native, internal, external32 or register it with "
                     "MPI_Register_datarep");
  return static_cast<const Datarep*>(&found->second);
}

Status register_datarep(Datarep datarep) {
  if (stores_native(datarep.name) || datareps().contains(datarep.name))
    return error(ErrorClass::dup_datarep, "datarep = \"" + datarep.name + "\" is defined already");
  std::string name = datarep.name;
  datareps().emplace(std::move(name), std::move(datarep));
  return {};
}

}  // namespace weft::io
