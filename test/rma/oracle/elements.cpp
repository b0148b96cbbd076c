// SPDX-License-Identifier: BSD-3-Clause
#include "rma/oracle/elements.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace oracle {
namespace {

constexpr size_t kLongDoubleBytes = 10;  // of data, on x86
std::vector<Element> reduced, moved;

size_t extent_of(MPI_Datatype type) {
  MPI_Aint lb, extent;
  MPI_Type_get_extent(type, &lb, &extent);
  return static_cast<size_t>(extent);
}

void add(MPI_Datatype type, Class kind, std::vector<Piece> pieces = {}) {
  const size_t extent = extent_of(type);
  if (pieces.empty()) pieces = {{0, extent}};
  size_t data = 0;
  for (const Piece& piece : pieces) data += piece.bytes;
  if (data < extent && without("padding")) return;
  reduced.push_back({type, kind, extent, pieces, false});
  moved.push_back(reduced.back());
}

/// A structure of an int, a double and a char at these offsets.
void add_structure(size_t first, size_t second, size_t third) {
  constexpr int kLengths[] = {1, 1, 1};
  const MPI_Aint at[] = {static_cast<MPI_Aint>(first), static_cast<MPI_Aint>(second),
                         static_cast<MPI_Aint>(third)};
  const MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
  MPI_Datatype packed, type;
  MPI_Type_create_struct(3, kLengths, at, types, &packed);
  MPI_Type_create_resized(packed, 0, 24, &type);
  MPI_Type_free(&packed);
  MPI_Type_commit(&type);
  moved.push_back({type, Class::moved, 24, {{first, 4}, {second, 8}, {third, 1}}, true});
}

template <class T>
void put_real(char* to, long long value) {
  const T real = static_cast<T>(value);
  std::memcpy(to, &real, sizeof(T) == 16 ? kLongDoubleBytes : sizeof(T));
}

void put_real_of(size_t bytes, char* to, long long value) {
  if (bytes == 4) put_real<float>(to, value);
  if (bytes == 8) put_real<double>(to, value);
  if (bytes >= kLongDoubleBytes) put_real<long double>(to, value);
}

void put_integer(size_t bytes, char* to, int64_t value) { std::memcpy(to, &value, bytes); }

}  // namespace

bool without(const char* feature) {
  const char* const features = std::getenv("TEST_WITHOUT");
  return features != nullptr && std::strstr(features, feature) != nullptr;
}

void create_elements() {
  for (const MPI_Datatype type :
       {MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_SHORT,     MPI_UNSIGNED_SHORT,     MPI_INT,      MPI_UNSIGNED,
        MPI_LONG,        MPI_UNSIGNED_LONG, MPI_LONG_LONG, MPI_UNSIGNED_LONG_LONG, MPI_INT8_T,   MPI_INT16_T,
        MPI_INT32_T,     MPI_INT64_T,       MPI_UINT8_T,   MPI_UINT16_T,           MPI_UINT32_T, MPI_UINT64_T,
        MPI_AINT,        MPI_OFFSET,        MPI_COUNT})
    add(type, Class::integer);
  add(MPI_FLOAT, Class::real);
  add(MPI_DOUBLE, Class::real);
  add(MPI_LONG_DOUBLE, Class::real, {{0, kLongDoubleBytes}});
  add(MPI_C_FLOAT_COMPLEX, Class::complex, {{0, 4}, {4, 4}});
  add(MPI_C_DOUBLE_COMPLEX, Class::complex, {{0, 8}, {8, 8}});
  add(MPI_C_LONG_DOUBLE_COMPLEX, Class::complex, {{0, kLongDoubleBytes}, {16, kLongDoubleBytes}});
  add(MPI_C_BOOL, Class::logical);
  add(MPI_BYTE, Class::byte);
  add(MPI_FLOAT_INT, Class::pair, {{0, 4}, {4, 4}});
  add(MPI_DOUBLE_INT, Class::pair, {{0, 8}, {8, 4}});
  add(MPI_LONG_INT, Class::pair, {{0, 8}, {8, 4}});
  add(MPI_2INT, Class::pair, {{0, 4}, {4, 4}});
  add(MPI_SHORT_INT, Class::pair, {{0, 2}, {4, 4}});
  add(MPI_LONG_DOUBLE_INT, Class::pair, {{0, kLongDoubleBytes}, {16, 4}});
  for (const MPI_Datatype type : {MPI_CHAR, MPI_WCHAR})
    moved.push_back({type, Class::moved, extent_of(type), {{0, extent_of(type)}}, false});
  add_structure(0, 8, 16);
  add_structure(20, 8, 3);
}

void destroy_elements() {
  for (Element& element : moved)
    if (element.keeps_padding) MPI_Type_free(&element.type);
  reduced.clear();
  moved.clear();
}

const Element& draw_element(Draw& draw, bool atomic) {
  for (;;) {
    const Element& element = reduced[static_cast<size_t>(draw.below(static_cast<int>(reduced.size())))];
    if (!atomic || element.kind == Class::integer) return element;
  }
}

const Element& draw_moved(Draw& draw, const Element** other_form) {
  const size_t at = static_cast<size_t>(draw.below(static_cast<int>(moved.size())));
  *other_form = &moved[at];
  const size_t forms = moved.size() - 2;
  if (at >= forms) *other_form = &moved[forms + static_cast<size_t>(draw.below(2))];
  return moved[at];
}

MPI_Op draw_operation(Draw& draw, const Element& element) {
  switch (element.kind) {
    case Class::integer:
      return draw.of(
          {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR});
    case Class::real:
      return draw.of({MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN});
    case Class::complex:
      return draw.of({MPI_SUM, MPI_PROD});
    case Class::logical:
      return draw.of({MPI_LAND, MPI_LOR, MPI_LXOR});
    case Class::byte:
      return draw.of({MPI_BAND, MPI_BOR, MPI_BXOR});
    case Class::pair:
      return draw.of({MPI_MINLOC, MPI_MAXLOC});
    case Class::moved:
      break;
  }
  std::abort();
}

void put_value(const Element& element, char* to, long long value) {
  const std::vector<Piece>& pieces = element.pieces;
  switch (element.kind) {
    case Class::integer:
    case Class::byte:
      put_integer(element.extent, to, value);
      break;
    case Class::logical:
      put_integer(element.extent, to, value % 2);
      break;
    case Class::real:
      put_real_of(pieces[0].bytes, to, value);
      break;
    case Class::complex:
      put_real_of(pieces[0].bytes, to, value);
      put_real_of(pieces[1].bytes, to + pieces[1].at, value % 2);
      break;
    case Class::pair:
      if (element.type == MPI_2INT || element.type == MPI_LONG_INT || element.type == MPI_SHORT_INT)
        put_integer(pieces[0].bytes, to, value);
      else
        put_real_of(pieces[0].bytes, to, value);
      put_integer(4, to + pieces[1].at, value + 1);
      break;
    case Class::moved:
      for (const Piece& piece : pieces)
        std::memset(to + piece.at, static_cast<int>(value) * 37 + static_cast<int>(piece.at), piece.bytes);
  }
}

std::string name_of(const Element& element) {
  char name[MPI_MAX_OBJECT_NAME];
  int length;
  MPI_Type_get_name(element.type, name, &length);
  return length > 0 ? name : "a structure";
}

long long get_value(const Element& element, const char* from) {
  long long value = 0;
  std::memcpy(&value, from, element.extent);
  return value;
}

void copy_element(const Element& from_form, const char* from, const Element& to_form, char* to) {
  for (size_t i = 0; i < from_form.pieces.size(); ++i)
    std::memcpy(to + to_form.pieces[i].at, from + from_form.pieces[i].at, from_form.pieces[i].bytes);
}

void combine(const Element& element, MPI_Op op, const char* origin, char* held) {
  if (op == MPI_NO_OP) return;
  if (op == MPI_REPLACE)
    copy_element(element, origin, element, held);
  else
    MPI_Reduce_local(origin, held, 1, element.type, op);
}

}  // namespace oracle
