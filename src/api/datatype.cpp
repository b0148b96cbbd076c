// SPDX-License-Identifier: BSD-3-Clause
// Datatypes: constructors, commit, free, names (MPI 5.0 sections 5.1.2 to 5.1.9, 7.8).
#include "datatype/datatype.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "api/caller.hpp"
#include "api/check.hpp"
#include "api/datatypes.hpp"
#include "api/impl.hpp"
#include "api/objects.hpp"
#include "core/attribute.hpp"

namespace weft::api {

Status return_datatype(datatype::DatatypeResult made, MPI_Datatype* handle) {
  if (!made) return std::move(made).error();
  *handle = handle_of(**made);
  return {};
}

}  // namespace weft::api

namespace weft::api::impl {
namespace {

using datatype::Datatype;

datatype::Width width(bool large) { return large ? datatype::Width::wide : datatype::Width::narrow; }

std::vector<MPI_Count> copy(const CountArray& values, MPI_Count n) {
  return values.copy(static_cast<size_t>(n));
}

Error is_predefined(const Datatype& type) {
  return {Errc::type, "datatype is " +
                          (type.name().empty() ? "predefined" : "the predefined " + type.name()) +
                          ": only derived types can be freed"};
}

/// A block of 19 elements that the program means is one of 1 element here: the ABI's value of the default.
void report_default_arguments(const int* distribs, const int* dargs, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (distribs[i] == MPI_DISTRIBUTE_CYCLIC && dargs[i] == MPI_DISTRIBUTE_DFLT_DARG)
      report("MPI_Type_create_darray: " + element_name("array_of_dargs", i) +
             " = 19 is MPI_DISTRIBUTE_DFLT_DARG, one element a block: the ABI of MPI 5.0 cannot express "
             "blocks of 19 elements");
}

Status no_dimensions(int ndims) {
  return Error(Errc::arg, "ndims = " + std::to_string(ndims) + ": pass 1 or more");
}

}  // namespace

Status Type_contiguous(MPI_Count count, Datatype& old, MPI_Datatype* made, bool large) {
  return return_datatype(datatype::contiguous(count, old, width(large)), made);
}

Status Type_vector(MPI_Count count, MPI_Count blocklength, MPI_Count stride, Datatype& old,
                   MPI_Datatype* made, bool large) {
  return return_datatype(datatype::vector(count, blocklength, stride, old, width(large)), made);
}

Status Type_create_hvector(MPI_Count count, MPI_Count blocklength, MPI_Count stride, Datatype& old,
                           MPI_Datatype* made, bool large) {
  return return_datatype(datatype::hvector(count, blocklength, stride, old, width(large)), made);
}

Status Type_indexed(MPI_Count count, CountArray lengths, CountArray displacements, Datatype& old,
                    MPI_Datatype* made, bool large) {
  return return_datatype(
      datatype::indexed(copy(lengths, count), copy(displacements, count), old, width(large)), made);
}

Status Type_create_hindexed(MPI_Count count, CountArray lengths, CountArray displacements, Datatype& old,
                            MPI_Datatype* made, bool large) {
  return return_datatype(
      datatype::hindexed(copy(lengths, count), copy(displacements, count), old, width(large)), made);
}

Status Type_create_indexed_block(MPI_Count count, MPI_Count length, CountArray displacements, Datatype& old,
                                 MPI_Datatype* made, bool large) {
  return return_datatype(datatype::indexed_block(length, copy(displacements, count), old, width(large)),
                         made);
}

Status Type_create_hindexed_block(MPI_Count count, MPI_Count length, CountArray displacements, Datatype& old,
                                  MPI_Datatype* made, bool large) {
  return return_datatype(datatype::hindexed_block(length, copy(displacements, count), old, width(large)),
                         made);
}

Status Type_create_struct(MPI_Count count, CountArray lengths, CountArray displacements, DatatypeArray types,
                          MPI_Datatype* made, bool large) {
  std::vector<Datatype*> parts;
  for (MPI_Count i = 0; i < count; ++i) parts.push_back(&types[static_cast<size_t>(i)]);
  return return_datatype(
      datatype::struct_(copy(lengths, count), copy(displacements, count), parts, width(large)), made);
}

Status Type_create_subarray(int ndims, CountArray sizes, CountArray subsizes, CountArray starts, int order,
                            Datatype& old, MPI_Datatype* made, bool large) {
  if (ndims < 1) return no_dimensions(ndims);
  return return_datatype(datatype::subarray(copy(sizes, ndims), copy(subsizes, ndims), copy(starts, ndims),
                                            static_cast<datatype::Order>(order), old, width(large)),
                         made);
}

Status Type_create_darray(int size, int rank, int ndims, CountArray gsizes, const int* distribs,
                          const int* dargs, const int* psizes, int order, Datatype& old, MPI_Datatype* made,
                          bool large) {
  if (ndims < 1) return no_dimensions(ndims);
  const auto n = static_cast<size_t>(ndims);
  const auto global = copy(gsizes, ndims);
  if (reporting()) report_default_arguments(distribs, dargs, n);
  return return_datatype(
      datatype::darray(
          {size, rank, global, {distribs, n}, {dargs, n}, {psizes, n}, static_cast<datatype::Order>(order)},
          old, width(large)),
      made);
}

Status Type_create_resized(Datatype& old, MPI_Count lb, MPI_Count extent, MPI_Datatype* made, bool large) {
  return return_datatype(datatype::resized(old, lb, extent, width(large)), made);
}

Status Type_dup(Datatype& old, MPI_Datatype* made) {
  datatype::DatatypeResult copy = datatype::dup(old);
  if (!copy) return std::move(copy).error();
  if (old.attributes != nullptr) {
    Status copied =
        core::attributes_of(old).copy_to(*g_instance, handle_of(old), core::attributes_of(**copy));
    if (!copied.ok()) {
      (*copy)->close_handle();
      return copied;
    }
  }
  return return_datatype(std::move(copy), made);
}

Status Type_commit(MPI_Datatype* handle) {
  to_datatype(*handle)->commit();
  return {};
}

Status Type_free(MPI_Datatype* handle) {
  Datatype& type = *to_datatype(*handle);
  if (type.predefined()) return is_predefined(type);
  if (type.attributes != nullptr && type.last_handle()) {
    type.retain();  // callbacks run without the instance lock
    Status cleared = core::attributes_of(type).clear(*g_instance, handle_of(type));
    const bool freed_meanwhile = !type.has_handle();
    type.release();
    if (!cleared.ok()) return cleared;
    if (freed_meanwhile)
      return Error(Errc::type,
                   "datatype was freed by the delete function of its own attribute: free it only once");
  }
  type.close_handle();
  *handle = MPI_DATATYPE_NULL;
  return {};
}

Status Type_get_name(Datatype& type, char* name, int* length) {
  copy_text(type.name(), name, MPI_MAX_OBJECT_NAME, length);
  return {};
}

Status Type_set_name(Datatype& type, const char* name) {
  const std::string text = name;
  type.set_name(text.substr(0, MPI_MAX_OBJECT_NAME - 1));
  return {};
}

}  // namespace weft::api::impl
