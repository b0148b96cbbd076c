// SPDX-License-Identifier: BSD-3-Clause
#include "fuzz/values.hpp"

#include <sys/mman.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

namespace weft::fuzz {
namespace {

constexpr size_t kPage = 4096, kSpacing = size_t{1} << 30, kSlots = 512;
constexpr size_t kRange = (kSlots + 64) * kSpacing;  // with a margin for displacements
constexpr size_t kMargin = 32 * kSpacing;
constexpr uintptr_t kLow = uintptr_t{1} << 40;  // absolute addresses that displacements can make
constexpr size_t kMaxKept = 24;
constexpr int64_t kHuge = 1 << 20;  // elements, or extents of them

constexpr int64_t kIntegers[] = {-1,      -2,          -3,      -4,      5,          7,     64,
                                 255,     1000,        4096,    32767,   32768,      65536, 1 << 20,
                                 1 << 30, INT_MAX - 1, INT_MAX, INT_MIN, INT_MIN + 1};
constexpr int64_t kWide[] = {
    int64_t{1} << 31, int64_t{1} << 32, (int64_t{1} << 32) + 1, int64_t{1} << 40, int64_t{1} << 61,
    int64_t{1} << 62, INT64_MAX,        INT64_MAX - 7,          INT64_MIN,        INT64_MIN + 1};
constexpr int64_t kDisplacements[] = {0, 1, 4, 8, 12, -1, -8, 4095, 4096, 1 << 20, 1 << 30, -(1 << 30)};

template <class H>
uintptr_t value_of(H handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

}  // namespace

Values::Values() {
  void* range = ::mmap(nullptr, kRange, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) {
    std::perror("reserving addresses");
    std::exit(77);
  }
  range_ = static_cast<char*>(range);
  pools_[0] = {value_of(MPI_COMM_WORLD), value_of(MPI_COMM_SELF), value_of(MPI_COMM_SELF)};
  pools_[1] = {value_of(MPI_INT),   value_of(MPI_BYTE),       value_of(MPI_DOUBLE), value_of(MPI_CHAR),
               value_of(MPI_FLOAT), value_of(MPI_DOUBLE_INT), value_of(MPI_PACKED), value_of(MPI_INT64_T)};
  pools_[2] = {value_of(MPI_ERRORS_RETURN)};  // others end the process
  pools_[4] = {value_of(MPI_GROUP_EMPTY)};
  pools_[5] = {value_of(MPI_INFO_ENV)};
  pools_[7] = {value_of(MPI_SUM),  value_of(MPI_MAX),     value_of(MPI_MINLOC),
               value_of(MPI_BAND), value_of(MPI_REPLACE), value_of(MPI_NO_OP)};
}

bool Values::is_own_fault(const void* address, bool no_address) const {
  if (no_address) return drawn_.huge;  // an end of a buffer lies beyond all addresses
  const auto at = reinterpret_cast<uintptr_t>(address), begin = reinterpret_cast<uintptr_t>(range_);
  const bool low = at < kLow || at > UINTPTR_MAX - kLow;
  if (low) return drawn_.in_place || drawn_.null_buffer;  // with displacements
  return drawn_.huge || (at >= begin && at < begin + kRange);
}

void* Values::slot() {
  if (draw(60) == 0) return nullptr;
  char* page = range_ + kMargin + next_slot_++ % kSlots * kSpacing;
  // Mapped anew: contents and protection of an earlier use are gone, and an array may have been kept.
  if (::mprotect(page, kPage, PROT_READ | PROT_WRITE) != 0) std::exit(77);
  auto* words = reinterpret_cast<uint64_t*>(page);
  for (size_t i = 0; i < 32; ++i) words[i] = random_();
  return page;
}

void* Values::buffer() {
  const uint64_t how = draw(24);
  switch (how) {
    case 0:
      draw_special(&Drawn::null_buffer);
      return nullptr;
    case 1:
      draw_special(&Drawn::in_place);  // some functions take it for the address 1
      return MPI_IN_PLACE;
    default:
      break;
  }
  auto* page = static_cast<char*>(slot());
  if (page == nullptr) {
    draw_special(&Drawn::null_buffer);
    return nullptr;
  }
  if (how == 2) return page + 1 + draw(15);  // unaligned
  if (how == 3) return page + kPage - 8;     // the guard page follows
  return page;
}

const char* Values::string() {
  static const std::vector<std::string>& strings =
      *new std::vector<std::string>{"",
                                    "a",
                                    "mpi://WORLD",
                                    "mpi://SELF",
                                    "true",
                                    "mpi_hw_resource_type",
                                    "mpi_assert_no_any_tag",
                                    "mpi_memory_alloc_kinds",
                                    "hwloc://NUMANode",
                                    "external32",
                                    "native",
                                    "progress.spin",
                                    "p2p.eager_bytes",
                                    "p2p.message_matched",
                                    "\xff\xfe",
                                    "%s%n%d",
                                    std::string(MPI_MAX_INFO_KEY - 1, 'k'),
                                    std::string(5000, 'x')};
  return draw(30) == 0 ? nullptr : strings[draw(strings.size())].c_str();
}

char** Values::strings() {
  auto** array = static_cast<char**>(slot());
  for (size_t i = 0; array != nullptr && i < kPage / sizeof(char*); ++i)
    array[i] = const_cast<char*>(string());
  return array;
}

int64_t Values::number(Integer kind, bool wide) {
  const int64_t value = choose(kind, wide);
  if (value >= kHuge || value <= -kHuge) draw_special(&Drawn::huge);
  return value;
}

int64_t Values::choose(Integer kind, bool wide) {
  if (kind == Integer::displacement && draw(3) != 0) return kDisplacements[draw(std::size(kDisplacements))];
  if (kind == Integer::number && !numbers_.empty() && draw(2) == 0) return numbers_[draw(numbers_.size())];
  const uint64_t choice = draw(10);
  if (kind == Integer::index && choice < 8) return static_cast<int64_t>(draw(200));
  if (choice < 8 || kind == Integer::displacement) return static_cast<int64_t>(draw(4));
  if (kind == Integer::rank && choice == 8) return draw(2) == 0 ? MPI_PROC_NULL : MPI_ANY_SOURCE;
  if (kind == Integer::tag && choice == 8) return MPI_ANY_TAG;
  if (wide && draw(2) == 0) return kWide[draw(std::size(kWide))];
  return kIntegers[draw(std::size(kIntegers))];
}

uintptr_t Values::handle_value(int pool) {
  const uint64_t choice = draw(24);
  if (choice == 0 && pool != 2) {  // of another type
    pool = static_cast<int>(draw(kPools));
  } else if (choice == 1) {
    constexpr uintptr_t kInvalid[] = {0, 1, 0x100, 0x1ff, 0x3ff, 0xdeadbeef0, UINTPTR_MAX, INT_MAX};
    return kInvalid[draw(std::size(kInvalid))];
  } else if (choice == 2 && pool != 2) {
    return draw(0x400);  // constants of the ABI, null handles among them
  }
  const auto& known = pools_[pool];
  return known.empty() ? 0 : known[draw(known.size())];
}

void Values::keep(int pool, uintptr_t value) {
  auto& known = pools_[pool];
  if (pool == 2 && value < 0x400) return;  // predefined handlers end the process
  if (known.size() < kMaxKept)
    known.push_back(value);
  else
    known[8 + draw(kMaxKept - 8)] = value;
}

}  // namespace weft::fuzz
