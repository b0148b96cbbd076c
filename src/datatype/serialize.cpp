// SPDX-License-Identifier: BSD-3-Clause
// Format: a head, then one record a type: combiner and width, four lengths, and the four lists of
// MPI_Type_get_contents (MPI 5.0 section 5.1.13). A type in a list is the handle of a predefined type, or
// kEarlier plus the number of an earlier record.
#include "datatype/serialize.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "datatype/f90.hpp"
#include "datatype/predefined.hpp"

namespace weft::datatype {
namespace {

constexpr uint64_t kEarlier = uint64_t{1} << 32;

struct Head {
  uint64_t root;     ///< reference to the type itself
  uint64_t records;  ///< their number
};

struct RecordHead {
  uint32_t combiner;
  uint32_t width;
  uint64_t integers, addresses, counts, types;  ///< lengths of the lists
};

class Writer {
 public:
  std::vector<std::byte> take(const Datatype& type) {
    bytes_.resize(sizeof(Head));
    const uint64_t root = add(type);
    const Head head{root, numbers_.size()};
    std::memcpy(bytes_.data(), &head, sizeof head);
    return std::move(bytes_);
  }

 private:
  /// The reference to a type, whose record is written before if it has one.
  uint64_t add(const Datatype& type) {
    const Contents& contents = type.contents();
    if (contents.combiner == Combiner::named) return type.handle();
    if (const auto known = numbers_.find(&type); known != numbers_.end()) return kEarlier + known->second;
    std::vector<uint64_t> types;
    types.reserve(contents.types.size());
    for (const Datatype* old : contents.types) types.push_back(add(*old));
    const RecordHead head{static_cast<uint32_t>(contents.combiner),
                          static_cast<uint32_t>(contents.width),
                          contents.integers.size(),
                          contents.addresses.size(),
                          contents.counts.size(),
                          types.size()};
    append(&head, sizeof head);
    append(contents.integers.data(), contents.integers.size() * sizeof(int));
    append(contents.addresses.data(), contents.addresses.size() * sizeof(Count));
    append(contents.counts.data(), contents.counts.size() * sizeof(Count));
    append(types.data(), types.size() * sizeof(uint64_t));
    const uint64_t number = numbers_.size();
    numbers_.emplace(&type, number);
    return kEarlier + number;
  }
  void append(const void* from, size_t n) {
    const auto* first = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), first, first + n);
  }
  std::unordered_map<const Datatype*, uint64_t> numbers_;
  std::vector<std::byte> bytes_;
};

Error malformed(const char* what) {
  return {Errc::type, std::string("a datatype from another process is malformed (") + what +
                          "): both processes must run the same version of Weft"};
}

/// The arguments of one constructor, read in order from the lists of its record.
class Arguments {
 public:
  Arguments(Contents& contents) : contents_(contents), wide_(contents.width == Width::wide) {}
  /// A count or displacement in elements.
  Count count() { return wide_ ? next(contents_.counts, counts_) : integer(); }
  /// A displacement or stride in bytes.
  Count address() { return wide_ ? next(contents_.counts, counts_) : next(contents_.addresses, addresses_); }
  int integer() { return static_cast<int>(next(contents_.integers, integers_)); }
  std::vector<Count> counts(Count n) {
    return list(n, [this] { return count(); });
  }
  std::vector<Count> addresses(Count n) {
    return list(n, [this] { return address(); });
  }
  std::vector<int> integers(Count n) {
    std::vector<int> result;
    for (const Count value : list(n, [this] { return Count{integer()}; }))
      result.push_back(static_cast<int>(value));
    return result;
  }
  Datatype& type() { return *next(contents_.types, types_, datatype::predefined(kByte)); }
  /// All arguments were there and all were read.
  [[nodiscard]] bool complete() const {
    return !missing_ && integers_ == contents_.integers.size() && addresses_ == contents_.addresses.size() &&
           counts_ == contents_.counts.size() && types_ == contents_.types.size();
  }
  [[nodiscard]] bool missing() const { return missing_; }
  [[nodiscard]] Width width() const { return contents_.width; }
  [[nodiscard]] std::span<Datatype* const> types() {
    types_ = contents_.types.size();
    return contents_.types;
  }

 private:
  template <class T>
  T next(const std::vector<T>& list, size_t& at, T otherwise = {}) {
    if (at < list.size()) return list[at++];
    missing_ = true;
    return otherwise;
  }
  template <class Read>
  std::vector<Count> list(Count n, Read&& read) {
    std::vector<Count> result;
    for (Count i = 0; i < n && !missing_; ++i) result.push_back(read());
    return result;
  }
  Contents& contents_;
  bool wide_, missing_ = false;
  size_t integers_ = 0, addresses_ = 0, counts_ = 0, types_ = 0;
};

DatatypeResult rebuild_blocks(Combiner combiner, Arguments& arguments) {
  const Count n = arguments.count();
  const bool in_bytes = combiner == Combiner::hindexed || combiner == Combiner::hindexed_block;
  const bool one_length = combiner == Combiner::indexed_block || combiner == Combiner::hindexed_block;
  const auto lengths = arguments.counts(one_length ? 1 : n);
  const auto displacements = in_bytes ? arguments.addresses(n) : arguments.counts(n);
  Datatype& old = arguments.type();
  if (!arguments.complete()) return malformed("arguments of blocks");
  switch (combiner) {
    case Combiner::indexed:
      return indexed(lengths, displacements, old, arguments.width());
    case Combiner::hindexed:
      return hindexed(lengths, displacements, old, arguments.width());
    case Combiner::indexed_block:
      return indexed_block(lengths[0], displacements, old, arguments.width());
    default:
      return hindexed_block(lengths[0], displacements, old, arguments.width());
  }
}

DatatypeResult rebuild_struct(Arguments& arguments) {
  const Count n = arguments.count();
  const auto lengths = arguments.counts(n);
  const auto displacements = arguments.addresses(n);
  const auto types = arguments.types();
  if (!arguments.complete() || static_cast<Count>(types.size()) != n)
    return malformed("arguments of a struct");
  return struct_(lengths, displacements, types, arguments.width());
}

// Wide forms keep the integers that are no counts, narrow forms have all arguments in one list.
DatatypeResult rebuild_subarray(Arguments& arguments) {
  const bool wide = arguments.width() == Width::wide;
  const Count n = arguments.integer();
  int order = wide ? arguments.integer() : 0;
  const auto sizes = arguments.counts(n), subsizes = arguments.counts(n), starts = arguments.counts(n);
  if (!wide) order = arguments.integer();
  Datatype& old = arguments.type();
  if (!arguments.complete()) return malformed("arguments of a subarray");
  return subarray(sizes, subsizes, starts, static_cast<Order>(order), old, arguments.width());
}

DatatypeResult rebuild_darray(Arguments& arguments) {
  const int processes = arguments.integer(), rank = arguments.integer();
  const Count n = arguments.integer();
  const auto gsizes = arguments.counts(n);
  const auto distributions = arguments.integers(n), values = arguments.integers(n),
             psizes = arguments.integers(n);
  const int order = arguments.integer();
  Datatype& old = arguments.type();
  if (!arguments.complete()) return malformed("arguments of a darray");
  const DarrayShape shape{processes, rank, gsizes, distributions, values, psizes, static_cast<Order>(order)};
  return darray(shape, old, arguments.width());
}

DatatypeResult rebuild(Contents& contents) {
  Arguments arguments(contents);
  const Width width = contents.width;
  const auto made = [&](auto&& construct) -> DatatypeResult {
    Datatype& old = arguments.type();
    if (!arguments.complete()) return malformed("arguments of a constructor");
    return construct(old);
  };
  switch (contents.combiner) {
    case Combiner::dup:
      return made([](Datatype& old) { return dup(old); });
    case Combiner::contiguous: {
      const Count count = arguments.count();
      return made([&](Datatype& old) { return contiguous(count, old, width); });
    }
    case Combiner::vector: {
      const Count count = arguments.count(), length = arguments.count(), stride = arguments.count();
      return made([&](Datatype& old) { return vector(count, length, stride, old, width); });
    }
    case Combiner::hvector: {
      const Count count = arguments.count(), length = arguments.count(), stride = arguments.address();
      return made([&](Datatype& old) { return hvector(count, length, stride, old, width); });
    }
    case Combiner::resized: {
      const Count lb = arguments.address(), extent = arguments.address();
      return made([&](Datatype& old) { return resized(old, lb, extent, width); });
    }
    case Combiner::indexed:
    case Combiner::hindexed:
    case Combiner::indexed_block:
    case Combiner::hindexed_block:
      return rebuild_blocks(contents.combiner, arguments);
    case Combiner::structure:
      return rebuild_struct(arguments);
    case Combiner::subarray:
      return rebuild_subarray(arguments);
    case Combiner::darray:
      return rebuild_darray(arguments);
    case Combiner::f90_real:
    case Combiner::f90_complex: {
      const int precision = arguments.integer(), range = arguments.integer();
      if (!arguments.complete()) return malformed("arguments of a Fortran type");
      return contents.combiner == Combiner::f90_real ? f90_real(precision, range)
                                                     : f90_complex(precision, range);
    }
    case Combiner::f90_integer: {
      const int range = arguments.integer();
      if (!arguments.complete()) return malformed("arguments of a Fortran type");
      return f90_integer(range);
    }
    case Combiner::named:
    case Combiner::value_index:
      break;
  }
  return malformed("combiner");
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes, const Replace* replace = nullptr)
      : rest_(bytes), replace_(replace) {}
  ~Reader() {
    for (Datatype* type : types_) type->close_handle();
    for (const auto& [handle, type] : replaced_)
      if (type != nullptr) type->close_handle();
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  DatatypeResult read() {
    Head head;
    if (!take(&head, sizeof head)) return malformed("length");
    for (uint64_t i = 0; i < head.records; ++i) WEFT_TRY(read_record());
    if (!rest_.empty()) return malformed("length");
    Datatype* type = resolve(head.root);
    if (type == nullptr) return malformed("root");
    type->retain();
    return type;
  }

 private:
  Status read_record() {
    RecordHead head;
    if (!take(&head, sizeof head)) return malformed("length");
    Contents contents;
    contents.combiner = static_cast<Combiner>(head.combiner);
    if (head.width > static_cast<uint32_t>(Width::wide)) return malformed("width");
    contents.width = static_cast<Width>(head.width);
    std::vector<uint64_t> references;
    if (!take_list(contents.integers, head.integers) || !take_list(contents.addresses, head.addresses) ||
        !take_list(contents.counts, head.counts) || !take_list(references, head.types))
      return malformed("length");
    for (const uint64_t reference : references) {
      if (replace_ != nullptr) WEFT_TRY(replace(reference));
      contents.types.push_back(resolve(reference));
      if (contents.types.back() == nullptr) return malformed("reference to a type");
    }
    DatatypeResult made = rebuild(contents);
    if (!made) return std::move(made).error();
    (*made)->commit();
    types_.push_back(*made);
    return {};
  }
  Status replace(uint64_t reference) {
    Datatype* const basic = reference < kEarlier ? datatype::predefined(reference) : nullptr;
    if (basic == nullptr || replaced_.contains(reference)) return {};
    DatatypeResult made = (*replace_)(*basic);
    if (!made) return std::move(made).error();
    replaced_.emplace(reference, *made);
    return {};
  }
  Datatype* resolve(uint64_t reference) const {
    if (const auto found = replaced_.find(reference); found != replaced_.end() && found->second != nullptr)
      return found->second;
    if (reference < kEarlier) return datatype::predefined(reference);
    return reference - kEarlier < types_.size() ? types_[reference - kEarlier] : nullptr;
  }
  bool take(void* to, size_t n) {
    if (n > rest_.size()) return false;
    if (n != 0) std::memcpy(to, rest_.data(), n);
    rest_ = rest_.subspan(n);
    return true;
  }
  template <class T>
  bool take_list(std::vector<T>& list, uint64_t n) {
    if (n > rest_.size() / sizeof(T)) return false;
    list.resize(n);
    return take(list.data(), n * sizeof(T));
  }
  std::span<const std::byte> rest_;
  std::vector<Datatype*> types_;  // by record; one handle each
  const Replace* const replace_;
  std::unordered_map<uint64_t, Datatype*> replaced_;  // by handle; null: kept
};

}  // namespace

std::vector<std::byte> serialize(const Datatype& type) { return Writer().take(type); }

DatatypeResult deserialize(std::span<const std::byte> bytes) { return Reader(bytes).read(); }

RemoteTypes::~RemoteTypes() {
  for (const auto& [key, known] : types_) known.type->release();
}

DatatypeResult with_replaced_types(Datatype& type, const Replace& replace) {
  if (type.contents().combiner == Combiner::named) {
    DatatypeResult made = replace(type);
    if (!made) return made;
    Datatype& result = *made == nullptr ? type : **made;
    result.retain();
    if (*made != nullptr) result.close_handle();
    return &result;
  }
  bool any = false;
  const Replace noted = [&](Datatype& basic) {
    DatatypeResult made = replace(basic);
    any |= made && *made != nullptr;
    return made;
  };
  const std::vector<std::byte> bytes = serialize(type);
  DatatypeResult made = Reader(bytes, &noted).read();
  if (!made || any) return made;
  (*made)->release();
  type.retain();
  return &type;
}

Datatype* RemoteTypes::find(uint32_t peer, uint64_t id) {
  const auto at = types_.find({peer, id});
  if (at == types_.end()) return nullptr;
  at->second.used = ++clock_;
  return at->second.type;
}

DatatypeResult RemoteTypes::add(uint32_t peer, uint64_t id, std::span<const std::byte> bytes) {
  DatatypeResult made = deserialize(bytes);
  if (!made) return made;
  const auto [at, is_new] = types_.try_emplace({peer, id}, Known{*made, ++clock_});
  if (!is_new) {
    at->second.type->release();
    at->second = {*made, clock_};
  }
  if (types_.size() > limit_) evict();
  return made;
}

void RemoteTypes::evict() {
  const auto oldest = std::min_element(types_.begin(), types_.end(), [](const auto& a, const auto& b) {
    return a.second.used < b.second.used;
  });
  oldest->second.type->release();
  types_.erase(oldest);
}

void RemoteTypes::forget(uint32_t peer) {
  std::erase_if(types_, [&](auto& entry) {
    if (entry.first.peer != peer) return false;
    entry.second.type->release();
    return true;
  });
}

}  // namespace weft::datatype
