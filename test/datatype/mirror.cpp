// SPDX-License-Identifier: BSD-3-Clause
#include "datatype/mirror.hpp"

#include <cstdlib>
#include <vector>

namespace weft::test {
namespace {

using datatype::Combiner;
using datatype::Contents;

MPI_Datatype make_narrow(const Contents& from, const std::vector<MPI_Datatype>& parts) {
  const int* i = from.integers.data();
  const MPI_Aint* a = from.addresses.data();
  MPI_Datatype old = parts.empty() ? MPI_DATATYPE_NULL : parts[0], made = MPI_DATATYPE_NULL;
  switch (from.combiner) {
    case Combiner::dup:
      return MPI_Type_dup(old, &made), made;
    case Combiner::contiguous:
      return MPI_Type_contiguous(i[0], old, &made), made;
    case Combiner::vector:
      return MPI_Type_vector(i[0], i[1], i[2], old, &made), made;
    case Combiner::hvector:
      return MPI_Type_create_hvector(i[0], i[1], a[0], old, &made), made;
    case Combiner::indexed:
      return MPI_Type_indexed(i[0], i + 1, i + 1 + i[0], old, &made), made;
    case Combiner::hindexed:
      return MPI_Type_create_hindexed(i[0], i + 1, a, old, &made), made;
    case Combiner::indexed_block:
      return MPI_Type_create_indexed_block(i[0], i[1], i + 2, old, &made), made;
    case Combiner::hindexed_block:
      return MPI_Type_create_hindexed_block(i[0], i[1], a, old, &made), made;
    case Combiner::structure:
      return MPI_Type_create_struct(i[0], i + 1, a, parts.data(), &made), made;
    case Combiner::subarray:
      return MPI_Type_create_subarray(i[0], i + 1, i + 1 + i[0], i + 1 + 2 * i[0], i[1 + 3 * i[0]], old,
                                      &made),
             made;
    case Combiner::darray:
      return MPI_Type_create_darray(i[0], i[1], i[2], i + 3, i + 3 + i[2], i + 3 + 2 * i[2], i + 3 + 3 * i[2],
                                    i[3 + 4 * i[2]], old, &made),
             made;
    case Combiner::resized:
      return MPI_Type_create_resized(old, a[0], a[1], &made), made;
    default:
      std::abort();
  }
}

MPI_Datatype make_wide(const Contents& from, const std::vector<MPI_Datatype>& parts) {
  const int* i = from.integers.data();
  const MPI_Count* c = from.counts.data();
  MPI_Datatype old = parts.empty() ? MPI_DATATYPE_NULL : parts[0], made = MPI_DATATYPE_NULL;
  switch (from.combiner) {
    case Combiner::contiguous:
      return MPI_Type_contiguous_c(c[0], old, &made), made;
    case Combiner::vector:
      return MPI_Type_vector_c(c[0], c[1], c[2], old, &made), made;
    case Combiner::hvector:
      return MPI_Type_create_hvector_c(c[0], c[1], c[2], old, &made), made;
    case Combiner::indexed:
      return MPI_Type_indexed_c(c[0], c + 1, c + 1 + c[0], old, &made), made;
    case Combiner::hindexed:
      return MPI_Type_create_hindexed_c(c[0], c + 1, c + 1 + c[0], old, &made), made;
    case Combiner::indexed_block:
      return MPI_Type_create_indexed_block_c(c[0], c[1], c + 2, old, &made), made;
    case Combiner::hindexed_block:
      return MPI_Type_create_hindexed_block_c(c[0], c[1], c + 2, old, &made), made;
    case Combiner::structure:
      return MPI_Type_create_struct_c(c[0], c + 1, c + 1 + c[0], parts.data(), &made), made;
    case Combiner::subarray:
      return MPI_Type_create_subarray_c(i[0], c, c + i[0], c + 2 * i[0], i[1], old, &made), made;
    case Combiner::darray:
      return MPI_Type_create_darray_c(i[0], i[1], i[2], c, i + 3, i + 3 + i[2], i + 3 + 2 * i[2],
                                      i[3 + 3 * i[2]], old, &made),
             made;
    case Combiner::resized:
      return MPI_Type_create_resized_c(old, c[0], c[1], &made), made;
    default:
      std::abort();
  }
}

}  // namespace

MPI_Datatype mirror(const datatype::Datatype& type) {
  if (type.predefined()) return reinterpret_cast<MPI_Datatype>(type.handle());
  const Contents& contents = type.contents();
  std::vector<MPI_Datatype> parts;
  for (const datatype::Datatype* part : contents.types) parts.push_back(mirror(*part));
  const MPI_Datatype made =
      contents.width == datatype::Width::wide ? make_wide(contents, parts) : make_narrow(contents, parts);
  for (const MPI_Datatype part : parts) free_mirror(part);
  return made;
}

void free_mirror(MPI_Datatype type) {
  int combiner = MPI_COMBINER_NAMED;
  MPI_Count numbers[4];
  MPI_Type_get_envelope_c(type, &numbers[0], &numbers[1], &numbers[2], &numbers[3], &combiner);
  if (combiner != MPI_COMBINER_NAMED) MPI_Type_free(&type);
}

}  // namespace weft::test
