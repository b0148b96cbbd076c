// SPDX-License-Identifier: BSD-3-Clause
// Elements of random windows: predefined datatypes and a structure in two forms, the operations that each
// allows, and the serial model of one operation on one element.
#pragma once
#include <mpi.h>

#include <cstddef>
#include <string>
#include <vector>

#include "reference/draw.hpp"

namespace oracle {

using randomized::Draw;

enum class Class { integer, real, complex, logical, byte, pair, moved };

struct Piece {
  size_t at, bytes;
};

struct Element {
  MPI_Datatype type;
  Class kind;
  size_t extent;              ///< bytes
  std::vector<Piece> pieces;  ///< the data; other bytes are padding
  bool keeps_padding;         ///< padding is a gap of a derived datatype, which MPI must not write
};

/// Returns whether TEST_WITHOUT names a feature, as a fault of another MPI may require: nocheck (of locks),
/// padding (elements with padding, such as MPI_LONG_DOUBLE).
bool without(const char* feature);

/// Creates the table, after MPI_Init.
void create_elements();
void destroy_elements();

/// Returns an element for accumulates; `atomic`: for MPI_Compare_and_swap.
const Element& draw_element(Draw& draw, bool atomic);
/// Returns an element for puts and gets, and another form of the same signature.
const Element& draw_moved(Draw& draw, const Element** other_form);

/// Returns a predefined operation of the element's class, MPI_REPLACE and MPI_NO_OP excluded.
MPI_Op draw_operation(Draw& draw, const Element& element);

/// Writes a small value, so that sums and products are exact.
void put_value(const Element& element, char* to, long long value);

/// Returns the value of an integer element.
long long get_value(const Element& element, const char* from);

std::string name_of(const Element& element);

void copy_element(const Element& from_form, const char* from, const Element& to_form, char* to);

/// The model of accumulates: `held` becomes `held` op `origin`.
void combine(const Element& element, MPI_Op op, const char* origin, char* held);

}  // namespace oracle
