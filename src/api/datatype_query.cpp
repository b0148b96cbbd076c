// SPDX-License-Identifier: BSD-3-Clause
// Datatypes: sizes, extents, contents, element counts, types by size and by Fortran's numeric model
// (MPI 5.0 sections 3.2.5, 5.1.5, 5.1.8, 5.1.11, 5.1.13, 19.1.9).
#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

#include "api/datatypes.hpp"
#include "api/impl.hpp"
#include "api/objects.hpp"
#include "api/status.hpp"
#include "datatype/f90.hpp"
#include "datatype/predefined.hpp"

namespace weft::api::impl {
namespace {

using datatype::Combiner;
using datatype::Contents;
using datatype::Datatype;
using datatype::Width;

/// Types created by large-count calls can only be queried by large-count calls (MPI 5.0 section 5.1.13).
Status check_width(const Datatype& type, bool large, const char* large_call) {
  if (large || type.contents().counts.empty()) return {};
  return Error(Errc::type, std::string("datatype was created by a large-count call: use ") + large_call);
}

Error too_small(const char* name, MPI_Count value, size_t needed) {
  return {Errc::arg, std::string(name) + " = " + std::to_string(value) + ": the type has " +
                         std::to_string(needed) + " (see MPI_Type_get_envelope)"};
}

}  // namespace

Status Type_size(Datatype& type, MPI_Count* size) {
  *size = type.size();
  return {};
}

Status Type_size_x(Datatype& type, MPI_Count* size) { return Type_size(type, size); }

Status Type_get_extent(Datatype& type, MPI_Count* lb, MPI_Count* extent) {
  *lb = type.lb();
  *extent = type.extent();
  return {};
}

Status Type_get_extent_x(Datatype& type, MPI_Count* lb, MPI_Count* extent) {
  return Type_get_extent(type, lb, extent);
}

Status Type_get_true_extent(Datatype& type, MPI_Count* lb, MPI_Count* extent) {
  *lb = type.true_lb();
  *extent = type.true_extent();
  return {};
}

Status Type_get_true_extent_x(Datatype& type, MPI_Count* lb, MPI_Count* extent) {
  return Type_get_true_extent(type, lb, extent);
}

Status Type_get_envelope(Datatype& type, MPI_Count* integers, MPI_Count* addresses, MPI_Count* large_counts,
                         MPI_Count* datatypes, int* combiner, bool large) {
  WEFT_TRY(check_width(type, large, "MPI_Type_get_envelope_c"));
  const Contents& contents = type.contents();
  *integers = static_cast<MPI_Count>(contents.integers.size());
  *addresses = static_cast<MPI_Count>(contents.addresses.size());
  if (large_counts != nullptr) *large_counts = static_cast<MPI_Count>(contents.counts.size());
  *datatypes = static_cast<MPI_Count>(contents.types.size());
  *combiner = static_cast<int>(contents.combiner);
  return {};
}

Status Type_get_contents(Datatype& type, MPI_Count max_integers, MPI_Count max_addresses,
                         MPI_Count max_large_counts, MPI_Count max_datatypes, int* integers,
                         MPI_Aint* addresses, MPI_Count* large_counts, MPI_Datatype* datatypes, bool large) {
  const Contents& contents = type.contents();
  if (contents.combiner == Combiner::named)
    return Error(Errc::type, "datatype is the predefined " + type.name() + ": it has no contents");
  WEFT_TRY(check_width(type, large, "MPI_Type_get_contents_c"));
  const auto fits = [](MPI_Count maximum, const auto& list) { return maximum >= std::ssize(list); };
  if (!fits(max_integers, contents.integers))
    return too_small("max_integers", max_integers, contents.integers.size());
  if (!fits(max_addresses, contents.addresses))
    return too_small("max_addresses", max_addresses, contents.addresses.size());
  if (large && !fits(max_large_counts, contents.counts))
    return too_small("max_large_counts", max_large_counts, contents.counts.size());
  if (!fits(max_datatypes, contents.types))
    return too_small("max_datatypes", max_datatypes, contents.types.size());
  std::copy(contents.integers.begin(), contents.integers.end(), integers);
  std::copy(contents.addresses.begin(), contents.addresses.end(), addresses);
  std::copy(contents.counts.begin(), contents.counts.end(), large_counts);
  for (Datatype* part : contents.types) {
    part->open_handle();  // the application frees the derived types
    *datatypes++ = handle_of(*part);
  }
  return {};
}

Status Get_count(const MPI_Status* status, Datatype& type, MPI_Count* count) {
  *count = datatype::whole_count(type, static_cast<MPI_Count>(bytes_of(*status)));
  return {};
}

Status Get_elements(const MPI_Status* status, Datatype& type, MPI_Count* count) {
  *count = datatype::elements(type, static_cast<MPI_Count>(bytes_of(*status)));
  return {};
}

Status Get_elements_x(const MPI_Status* status, Datatype& type, MPI_Count* count) {
  return Get_elements(status, type, count);
}

Status Status_set_elements(MPI_Status* status, Datatype& type, MPI_Count count) {
  const MPI_Count whole = type.basic_elements() == 0 ? 0 : count / type.basic_elements();
  if (whole == std::numeric_limits<MPI_Count>::max() || !datatype::packed_size(type, whole + 1))
    return Error(Errc::count, "count = " + std::to_string(count) + " (basic elements of a type of " +
                                  std::to_string(type.size()) +
                                  " bytes): the size in bytes does not fit 64 bits");
  set_bytes(*status, static_cast<uint64_t>(datatype::bytes_of_elements(type, count)));
  return {};
}

Status Status_set_elements_x(MPI_Status* status, Datatype& type, MPI_Count count) {
  return Status_set_elements(status, type, count);
}

Status Type_match_size(int typeclass, int size, MPI_Datatype* handle) {
  static const struct {
    int typeclass, size;
    MPI_Datatype handle;
  } kTypes[] = {
      {MPI_TYPECLASS_REAL, 2, MPI_REAL2},         {MPI_TYPECLASS_REAL, 4, MPI_REAL4},
      {MPI_TYPECLASS_REAL, 8, MPI_REAL8},         {MPI_TYPECLASS_REAL, 16, MPI_REAL16},
      {MPI_TYPECLASS_INTEGER, 1, MPI_INTEGER1},   {MPI_TYPECLASS_INTEGER, 2, MPI_INTEGER2},
      {MPI_TYPECLASS_INTEGER, 4, MPI_INTEGER4},   {MPI_TYPECLASS_INTEGER, 8, MPI_INTEGER8},
      {MPI_TYPECLASS_INTEGER, 16, MPI_INTEGER16}, {MPI_TYPECLASS_COMPLEX, 4, MPI_COMPLEX4},
      {MPI_TYPECLASS_COMPLEX, 8, MPI_COMPLEX8},   {MPI_TYPECLASS_COMPLEX, 16, MPI_COMPLEX16},
      {MPI_TYPECLASS_COMPLEX, 32, MPI_COMPLEX32},
  };
  bool known = false;
  for (const auto& type : kTypes) {
    known = known || type.typeclass == typeclass;
    if (type.typeclass != typeclass || type.size != size) continue;
    *handle = type.handle;
    return {};
  }
  if (known)
    return Error(Errc::arg, "size = " + std::to_string(size) + ": no type of this class has this size");
  return Error(Errc::arg, "typeclass = " + std::to_string(typeclass) +
                              ": pass MPI_TYPECLASS_REAL, MPI_TYPECLASS_INTEGER or MPI_TYPECLASS_COMPLEX");
}

Status Type_get_value_index(Datatype& value, Datatype& index, MPI_Datatype* pair) {
  static const struct {
    MPI_Datatype value, index, pair;
  } kPairs[] = {
      {MPI_FLOAT, MPI_INT, MPI_FLOAT_INT},
      {MPI_DOUBLE, MPI_INT, MPI_DOUBLE_INT},
      {MPI_LONG, MPI_INT, MPI_LONG_INT},
      {MPI_INT, MPI_INT, MPI_2INT},
      {MPI_SHORT, MPI_INT, MPI_SHORT_INT},
      {MPI_LONG_DOUBLE, MPI_INT, MPI_LONG_DOUBLE_INT},
      {MPI_REAL, MPI_REAL, MPI_2REAL},
      {MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, MPI_2DOUBLE_PRECISION},
      {MPI_INTEGER, MPI_INTEGER, MPI_2INTEGER},
  };
  *pair = MPI_DATATYPE_NULL;
  for (const auto& known : kPairs)
    if (known.value == handle_of(value) && known.index == handle_of(index)) *pair = known.pair;
  return {};
}

Status Type_create_f90_real(int p, int r, MPI_Datatype* handle) {
  return return_datatype(datatype::f90_real(p, r), handle);
}

Status Type_create_f90_complex(int p, int r, MPI_Datatype* handle) {
  return return_datatype(datatype::f90_complex(p, r), handle);
}

Status Type_create_f90_integer(int r, MPI_Datatype* handle) {
  return return_datatype(datatype::f90_integer(r), handle);
}

}  // namespace weft::api::impl
