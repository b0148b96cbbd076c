// SPDX-License-Identifier: BSD-3-Clause
// Helpers of the datatype tests: owning pointers, random types, comparison with the oracle.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "datatype/datatype.hpp"
#include "datatype/predefined.hpp"
#include "reference/typemap.hpp"

namespace weft::test {

using datatype::Basic;
using datatype::Count;
using datatype::Datatype;
using datatype::DatatypeResult;

struct CloseHandle {
  void operator()(Datatype* type) const { type->close_handle(); }
};
using Type = std::unique_ptr<Datatype, CloseHandle>;

/// Returns the type; a failed constructor is a test failure.
inline Type must(DatatypeResult made) {
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message());
  return Type(made.ok() ? *made : nullptr);
}

/// The first predefined type with this basic type.
inline Datatype& basic(Basic wanted) {
  for (Datatype* type : datatype::all_predefined())
    if (type->basic() == wanted) return *type;
  std::abort();
}

using Random = std::mt19937_64;
inline Count between(Random& random, Count low, Count high) {
  return std::uniform_int_distribution<Count>(low, high)(random);
}

/// A type with up to `depth` nested constructors, small enough for the oracle.
Type random_type(Random& random, int depth);

/// Compares (type, count) with the oracle: bounds, pack and unpack of random fragments, runs, strided form,
/// element counts.
void check_against_oracle(Datatype& type, Count count, Random& random);

}  // namespace weft::test
