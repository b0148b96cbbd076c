// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/message/type_check.hpp"

#include <string>

#include "datatype/basic.hpp"
#include "datatype/predefined.hpp"

namespace weft::p2p {
namespace {

using datatype::Basic;
using datatype::Group;

/// Integers of C, of Fortran and of both are one kind: programs mix them on purpose.
Group kind_of(Basic basic) {
  const Group group = datatype::traits_of(basic).group;
  return group == Group::fortran_integer || group == Group::multi_language ? Group::c_integer : group;
}

std::string name_of(Basic basic) {
  for (const datatype::Datatype* type : datatype::all_predefined())
    if (type->basic() == basic) return type->name();
  return "another type";
}

}  // namespace

uint16_t signature_of(const Transfer& t) {
  if (t.context != t.comm->context(core::Channel::user) || t.type == nullptr) return 0;
  const auto basic = t.type->basic();
  if (!basic || datatype::traits_of(*basic).size == 1) return 0;
  if (kind_of(*basic) == Group::pair) return 0;  // MPI_2INT matches two MPI_INT
  return static_cast<uint16_t>(1 + static_cast<int>(*basic));
}

void fail_if_types_differ(Transfer& receive, uint16_t sent) {
  const uint16_t own = signature_of(receive);
  if (own == 0 || own == sent || sent > datatype::kBasicCount) return;
  const auto theirs = static_cast<Basic>(sent - 1), ours = static_cast<Basic>(own - 1);
  if (kind_of(theirs) == kind_of(ours) && datatype::traits_of(theirs).size == datatype::traits_of(ours).size)
    return;
  receive.outcome = Error(Errc::type, "WEFT_CHECK: the datatypes differ: rank " +
                                          std::to_string(receive.completion.source) + " sends elements of " +
                                          name_of(theirs) + " with tag " +
                                          std::to_string(receive.completion.tag) + ", the receive takes " +
                                          name_of(ours) + ": pass the same datatype to send and receive");
}

}  // namespace weft::p2p
