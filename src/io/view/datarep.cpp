// SPDX-License-Identifier: BSD-3-Clause
#include "io/view/datarep.hpp"

#include <map>
#include <utility>

#include "datatype/external.hpp"
#include "datatype/predefined.hpp"
#include "datatype/serialize.hpp"
#include "io/backend/error.hpp"

namespace weft::io {
namespace {

Datarep external32() {
  Datarep datarep;
  datarep.name = "external32";
  datarep.extent = [](datatype::Datatype& type) { return datatype::external_size(type, 1); };
  datarep.read = [](void* user, datatype::Datatype& type, int64_t count, void* file) {
    return datatype::unpack_external(type, count, user, file);
  };
  datarep.write = [](void* user, datatype::Datatype& type, int64_t count, void* file) {
    return datatype::pack_external(type, count, user, file);
  };
  return datarep;
}

std::map<std::string, Datarep, std::less<>>& datareps() {
  // "internal" stores data as in memory; it has an entry for its name.
  static auto& all = *new std::map<std::string, Datarep, std::less<>>{{"external32", external32()},
                                                                      {"internal", {"internal", {}, {}, {}}}};
  return all;
}

}  // namespace

datatype::DatatypeResult Datarep::file_form(datatype::Datatype& type) const {
  return datatype::with_replaced_types(type, [this](datatype::Datatype& basic) -> datatype::DatatypeResult {
    if (basic.size() == 0) return nullptr;  // MPI_DATATYPE_NULL and the like have no bytes
    auto bytes = extent(basic);
    if (!bytes) return std::move(bytes).error();
    if (*bytes < 1)
      return error(ErrorClass::conversion, "datarep = \"" + name + "\": a predefined type has " +
                                               std::to_string(*bytes) + " bytes in the file");
    if (*bytes == basic.size()) return nullptr;
    return datatype::contiguous(*bytes, *datatype::predefined(datatype::kByte), datatype::Width::wide);
  });
}

Result<const Datarep*> find_datarep(std::string_view name) {
  if (name == "native") return static_cast<const Datarep*>(nullptr);
  const auto found = datareps().find(name);
  if (found == datareps().end())
    return error(ErrorClass::unsupported_datarep,
                 "datarep = \"" + std::string(name) +
                     "\" is unknown: use native, internal, external32 or register it with "
                     "MPI_Register_datarep");
  return static_cast<const Datarep*>(&found->second);
}

Status register_datarep(Datarep datarep) {
  if (datarep.name == "native" || datareps().contains(datarep.name))
    return error(ErrorClass::dup_datarep, "datarep = \"" + datarep.name + "\" is defined already");
  std::string name = datarep.name;
  datareps().emplace(std::move(name), std::move(datarep));
  return {};
}

}  // namespace weft::io
