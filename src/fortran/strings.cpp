// SPDX-License-Identifier: BSD-3-Clause
// Routines with strings whose length is an argument, and lists of strings.
#include "fortran/convert.hpp"

namespace weft::fortran {

namespace {

/// Arguments of a program: strings of `length` characters, `stride` strings apart, up to the first blank one.
class Arguments {
 public:
  Arguments(const char* text, size_t length, size_t stride) {
    for (; length > 0; text += length * stride) {
      strings_.emplace_back(text, length);
      if (strings_.back().empty()) break;
    }
    for (Stripped& string : strings_)
      if (!string.empty()) pointers_.push_back(string.data());
    pointers_.push_back(nullptr);
  }
  [[nodiscard]] char** data() { return pointers_.data(); }

 private:
  std::vector<Stripped> strings_;
  std::vector<char*> pointers_;
};

int* error_codes(int* codes) { return codes == &mpi_fortran_errcodes_ignore_ ? MPI_ERRCODES_IGNORE : codes; }

}  // namespace

WEFT_FORTRAN(void, comm_spawn,
             (const char* command, const char* argv, const int* maxprocs, const int* info, const int* root,
              const int* comm, int* intercomm, int* codes, int* ierror, size_t command_length,
              size_t argv_length))
try {
  const Stripped command_c(command, command_length);
  const bool none = argv == &mpi_fortran_argv_null_;
  Arguments arguments(argv, none ? 0 : argv_length, 1);
  MPI_Comm created = MPI_COMM_NULL;
  const int code = PMPI_Comm_spawn(command_c.text(), none ? MPI_ARGV_NULL : arguments.data(), *maxprocs,
                                   in<Info>(*info), *root, in<Comm>(*comm), &created, error_codes(codes));
  if (code == MPI_SUCCESS) *intercomm = out<Comm>(created);
  set_error(ierror, code);
} catch (const std::bad_alloc&) {
  out_of_memory(ierror);
}

WEFT_FORTRAN(void, comm_spawn_multiple,
             (const int* count, const char* commands, const char* argvs, const int* maxprocs,
              const int* infos, const int* root, const int* comm, int* intercomm, int* codes, int* ierror,
              size_t command_length, size_t argv_length))
try {
  // Only the root's lists are significant.
  int rank = MPI_PROC_NULL;
  const bool is_root = PMPI_Comm_rank(in<Comm>(*comm), &rank) == MPI_SUCCESS && rank == *root && *count > 0;
  const size_t programs = is_root ? static_cast<size_t>(*count) : 0;
  const bool none = argvs == &mpi_fortran_argvs_null_;
  std::vector<Stripped> names;
  std::vector<Arguments> lists;
  for (size_t i = 0; i < programs; ++i) {
    names.emplace_back(commands + i * command_length, command_length);
    // array_of_argv(count, *): the arguments of a program are `count` strings apart.
    if (!none) lists.emplace_back(argvs + i * argv_length, argv_length, programs);
  }
  std::vector<char*> name_pointers;
  std::vector<char**> list_pointers;
  for (Stripped& name : names) name_pointers.push_back(name.data());
  for (Arguments& list : lists) list_pointers.push_back(list.data());
  HandlesIn<Info> infos_c(infos, static_cast<MPI_Count>(programs));
  MPI_Comm created = MPI_COMM_NULL;
  const int code = PMPI_Comm_spawn_multiple(
      *count, name_pointers.data(), none ? MPI_ARGVS_NULL : list_pointers.data(), maxprocs, infos_c.data(),
      *root, in<Comm>(*comm), &created, error_codes(codes));
  if (code == MPI_SUCCESS) *intercomm = out<Comm>(created);
  set_error(ierror, code);
} catch (const std::bad_alloc&) {
  out_of_memory(ierror);
}

WEFT_FORTRAN(void, info_get,
             (const int* info, const char* key, const int* valuelen, char* value, int* flag, int* ierror,
              size_t key_length, size_t value_length))
try {
  const Stripped key_c(key, key_length);
  std::vector<char> text(static_cast<size_t>(*valuelen > 0 ? *valuelen : 0) + 1);
  const int code = PMPI_Info_get(in<Info>(*info), key_c.text(), *valuelen, text.data(), flag);
  if (code == MPI_SUCCESS && *flag != 0) copy_out(value, value_length, text.data());
  set_error(ierror, code);
} catch (const std::bad_alloc&) {
  out_of_memory(ierror);
}

WEFT_FORTRAN(void, info_get_valuelen,
             (const int* info, const char* key, int* valuelen, int* flag, int* ierror, size_t key_length))
try {
  const Stripped key_c(key, key_length);
  set_error(ierror, PMPI_Info_get_valuelen(in<Info>(*info), key_c.text(), valuelen, flag));
} catch (const std::bad_alloc&) {
  out_of_memory(ierror);
}

/// Fortran's lengths do not include a closing zero, C's do.
WEFT_FORTRAN(void, info_get_string,
             (const int* info, const char* key, int* buflen, char* value, int* flag, int* ierror,
              size_t key_length, size_t value_length))
try {
  const Stripped key_c(key, key_length);
  int capacity = *buflen > 0 ? *buflen + 1 : 0;
  const int given = capacity;
  std::vector<char> text(static_cast<size_t>(capacity) + 1);
  const int code = PMPI_Info_get_string(in<Info>(*info), key_c.text(), &capacity, text.data(), flag);
  if (code == MPI_SUCCESS && *flag != 0) {
    if (given > 0) copy_out(value, value_length, text.data());
    *buflen = capacity - 1;
  }
  set_error(ierror, code);
} catch (const std::bad_alloc&) {
  out_of_memory(ierror);
}

WEFT_FORTRAN(void, session_get_nth_pset,
             (const int* session, const int* info, const int* n, int* length, char* name, int* ierror,
              size_t name_length))
try {
  int capacity = *length > 0 ? *length + 1 : 0;
  const int given = capacity;
  std::vector<char> text(static_cast<size_t>(capacity) + 1);
  const int code =
      PMPI_Session_get_nth_pset(in<Session>(*session), in<Info>(*info), *n, &capacity, text.data());
  if (code == MPI_SUCCESS && given > 0) copy_out(name, name_length, text.data());
  if (code == MPI_SUCCESS && given == 0) *length = capacity - 1;
  set_error(ierror, code);
} catch (const std::bad_alloc&) {
  out_of_memory(ierror);
}

}  // namespace weft::fortran
