// SPDX-License-Identifier: BSD-3-Clause
// Functions with constants behind pointers: attributes, the arguments of a derived datatype. Error classes,
// version, start of MPI.
#include <new>
#include <string>

#include "compat/translate.hpp"

namespace weft::compat {

namespace {

/// The address of a small constant, valid for ever.
int* constant(int value) {
  static int values[] = {0, 1, 2, 3, 4, 5, 6, 7};
  return value >= 0 && value < 8 ? &values[value] : nullptr;
}

/// The address of a predefined attribute's value in the program's constants; nullptr if the value is the
/// same.
int* converted(int keyval, const int* value) {
  static int last_used_code, io, host;  // the same for all communicators
  switch (keyval) {
    case MPI_LASTUSEDCODE:
      last_used_code = *value == MPI_ERR_LASTCODE ? foreign::ERR_LASTCODE : out_error(*value);
      return &last_used_code;
    case MPI_IO:
      io = out_rank(*value);
      return &io;
    case MPI_HOST:
      host = out_rank(*value);
      return &host;
    case MPI_WIN_CREATE_FLAVOR:
      return constant(out_flavor(*value));
    case MPI_WIN_MODEL:
      return constant(out_model(*value));
    default:
      return nullptr;
  }
}

int get_attribute(int code, int native_keyval, void* value, const int* flag) {
  if (code == MPI_SUCCESS && *flag != 0) {
    int* found;
    std::memcpy(&found, value, sizeof found);
    if (int* const own = converted(native_keyval, found)) std::memcpy(value, &own, sizeof own);
  }
  return out_error(code);
}

/// Converts the constants among the integers of MPI_Type_get_contents (MPI 5.0 section 5.1.13).
template <class Contents>
int get_contents(const Contents& call, MPI_Datatype type, int* integers, bool large) {
  int combiner = 0;
  MPI_Count counts[4];
  int code = native.Type_get_envelope_c(type, &counts[0], &counts[1], &counts[2], &counts[3], &combiner);
  if (code == MPI_SUCCESS) code = call();
  if (code != MPI_SUCCESS || integers == nullptr) return out_error(code);
  if (combiner == MPI_COMBINER_SUBARRAY) {
    int& order = integers[counts[0] - 1];
    order = out_order(order);
  } else if (combiner ==
             MPI_COMBINER_DARRAY) {  // size, rank, ndims, gsizes (small only), distribs, dargs, psizes, order
    const int ndims = integers[2];
    int* const distributions = integers + 3 + (large && counts[2] > 0 ? 0 : ndims);
    for (int i = 0; i < ndims; ++i) {
      distributions[i] = out_distribution(distributions[i]);
      distributions[ndims + i] = out_distribution_argument(distributions[ndims + i]);
    }
    distributions[3 * ndims] = out_order(distributions[3 * ndims]);
  }
  return out_error(code);
}

}  // namespace

WEFT_COMPAT(int, Comm_get_attr, (Handle comm, int keyval, void* value, int* flag)) {
  const int native_keyval = in_keyval(keyval);
  return get_attribute(native.Comm_get_attr(in<Comm>(comm), native_keyval, value, flag), native_keyval, value,
                       flag);
}
WEFT_COMPAT(int, Attr_get, (Handle comm, int keyval, void* value, int* flag)) {
  const int native_keyval = in_keyval(keyval);
  return get_attribute(native.Attr_get(in<Comm>(comm), native_keyval, value, flag), native_keyval, value,
                       flag);
}
WEFT_COMPAT(int, Win_get_attr, (Handle win, int keyval, void* value, int* flag)) {
  const int native_keyval = in_keyval(keyval);
  return get_attribute(native.Win_get_attr(in<Win>(win), native_keyval, value, flag), native_keyval, value,
                       flag);
}

WEFT_COMPAT(int, Type_get_contents,
            (Handle datatype, int max_integers, int max_addresses, int max_datatypes, int integers[],
             MPI_Aint addresses[], Handle types[]))
try {
  TypesOut types_native(types, max_datatypes);
  const auto call = [&] {
    const int code = native.Type_get_contents(in<Type>(datatype), max_integers, max_addresses, max_datatypes,
                                              integers, addresses, types_native.data());
    types_native.finish();
    return code;
  };
  return get_contents(call, in<Type>(datatype), integers, false);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}
WEFT_COMPAT(int, Type_get_contents_c,
            (Handle datatype, MPI_Count max_integers, MPI_Count max_addresses, MPI_Count max_large_counts,
             MPI_Count max_datatypes, int integers[], MPI_Aint addresses[], MPI_Count large_counts[],
             Handle types[]))
try {
  TypesOut types_native(types, max_datatypes);
  const auto call = [&] {
    const int code =
        native.Type_get_contents_c(in<Type>(datatype), max_integers, max_addresses, max_large_counts,
                                   max_datatypes, integers, addresses, large_counts, types_native.data());
    types_native.finish();
    return code;
  };
  return get_contents(call, in<Type>(datatype), integers, true);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

/// This library does not have the standard ABI (MPI 5.0 section 20.2.1).
WEFT_COMPAT(int, Abi_get_version, (int* major, int* minor)) {
  if (major != nullptr) *major = -1;
  if (minor != nullptr) *minor = -1;
  return MPI_SUCCESS;
}

/// Programs look for the name of the MPI for which they were built.
WEFT_COMPAT(int, Get_library_version, (char* version, int* length)) {
  char native_text[MPI_MAX_LIBRARY_VERSION_STRING];
  const int code = native.Get_library_version(version == nullptr ? nullptr : native_text, length);
  if (code == MPI_SUCCESS) {
    std::string text = native_text;
    text = text.substr(0, text.rfind(" (")) + " (binary interface of " + kInterface + ")";
    out_string(version, text.c_str(), foreign::MAX_LIBRARY_VERSION_STRING, length);
  }
  return out_error(code);
}

/// The mpi.h of the interface lacks the constants of later versions.
WEFT_COMPAT(int, Get_version, (int* version, int* subversion)) {
  if (version != nullptr) *version = foreign::kVersion;
  if (subversion != nullptr) *subversion = foreign::kSubversion;
  return MPI_SUCCESS;
}

WEFT_COMPAT(int, Error_class, (int code, int* error_class)) {
  const int result = native.Error_class(in_error(code), error_class);
  if (result == MPI_SUCCESS && error_class != nullptr) *error_class = out_error(*error_class);
  return out_error(result);
}
WEFT_COMPAT(int, Error_string, (int code, char* text, int* length)) {
  char native_text[MPI_MAX_ERROR_STRING];
  const int result = native.Error_string(in_error(code), text == nullptr ? nullptr : native_text, length);
  if (result == MPI_SUCCESS) out_string(text, native_text, foreign::MAX_ERROR_STRING, length);
  return out_error(result);
}

static bool has_sessions = false;
WEFT_COMPAT(int, Init, (int* argc, char*** argv)) {
  const int code = native.Init(argc, argv);
  int level;
  if (code == MPI_SUCCESS && native.Query_thread(&level) == MPI_SUCCESS)
    expect_threads(level == MPI_THREAD_MULTIPLE || has_sessions);
  return out_error(code);
}
WEFT_COMPAT(int, Init_thread, (int* argc, char*** argv, int required, int* provided)) {
  const int code = native.Init_thread(argc, argv, in_thread_level(required), provided);
  if (code == MPI_SUCCESS) {
    expect_threads(*provided == MPI_THREAD_MULTIPLE || has_sessions);
    *provided = out_thread_level(*provided);
  }
  return out_error(code);
}
WEFT_COMPAT(int, Session_init, (Handle info, Handle errhandler, Handle* session)) try {
  has_sessions = true;
  expect_threads(true);  // the level of a session is known by its info alone
  HandleOut<Session> created(session);
  const int code = native.Session_init(in<Info>(info), in<Errhandler>(errhandler), created.get());
  created.finish();
  return out_error(code);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace weft::compat
