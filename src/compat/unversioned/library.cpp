// SPDX-License-Identifier: BSD-3-Clause
// libmpi.so, a name that libraries of MPICH and of Open MPI have: functions that jump to those of
// libmpi.so.12 or libmpi.so.40 of this folder. The symbols that the program imports tell for which it was
// built. Objects of Open MPI are those of libmpi.so.40, which this library needs.
#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "compat/folder.hpp"
#include "compat/mpich.hpp"
#include "compat/native.hpp"

namespace weft::compat {

namespace {

/// WEFT_COMPAT_NAMES(X): X(number, name) for each function that one of the two libraries has.
#include "compat/unversioned_names.inc"

#define WEFT_COMPAT_TEXT(number, name) #name,
constexpr const char* kNames[] = {WEFT_COMPAT_NAMES(WEFT_COMPAT_TEXT)};
constexpr size_t kCount = sizeof kNames / sizeof kNames[0];

}  // namespace

/// Targets of the jumps. Filled when the library is loaded, before the program's code runs.
extern "C" __attribute__((visibility("hidden"))) void* weft_compat_targets[kCount];
void* weft_compat_targets[kCount];

#if defined(__x86_64__)
#define WEFT_COMPAT_JUMP(number) "endbr64\n jmp *weft_compat_targets+8*" #number "(%rip)\n"
#elif defined(__aarch64__)
#define WEFT_COMPAT_JUMP(number)                        \
  "hint #34\n adrp x16, weft_compat_targets+8*" #number \
  "\n ldr x16, [x16, #:lo12:weft_compat_targets+8*" #number "]\n br x16\n"
#else
#error "no jump for this processor"
#endif
#define WEFT_COMPAT_FUNCTION(number, name)                                                          \
  __asm__(".pushsection .text\n .balign 16\n .globl " #name "\n .type " #name ", %function\n" #name \
          ":\n" WEFT_COMPAT_JUMP(number) ".size " #name ", .-" #name "\n .popsection\n");
WEFT_COMPAT_NAMES(WEFT_COMPAT_FUNCTION)

// Constants of MPICH's interface, which a program may have copied before code of this library runs.
WEFT_COMPAT_DATA(int* const, MPI_UNWEIGHTED, unweighted)
WEFT_COMPAT_DATA(int* const, MPI_WEIGHTS_EMPTY, weights_empty)
WEFT_COMPAT_DATA(const MPI_T_pvar_handle, MPI_T_PVAR_ALL_HANDLES, MPI_T_PVAR_ALL_HANDLES)
// Variables with addresses, of which each library has its own.
WEFT_COMPAT_DATA(void*, MPI_F_STATUS_IGNORE, nullptr)
WEFT_COMPAT_DATA(void*, MPI_F_STATUSES_IGNORE, nullptr)
WEFT_COMPAT_DATA(void*, MPI_F08_STATUS_IGNORE, nullptr)
WEFT_COMPAT_DATA(void*, MPI_F08_STATUSES_IGNORE, nullptr)

namespace {

[[noreturn]] void fail(const char* why) {
  std::fprintf(
      stderr,
      "weft: libmpi.so for programs of another MPI cannot start (%s): repair the installation of Weft\n",
      why);
  std::_Exit(127);
}

/// Takes the place of a function that the chosen interface does not have.
[[noreturn]] void missing() {
  std::fputs(
      "weft: the program calls a function that the MPI for which it was built does not have: "
      "`weft run-info` of the program and its libraries names it\n",
      stderr);
  std::_Exit(127);
}

/// Signs of the interface for which the program and its libraries were built.
struct Importers {
  bool any = false;       ///< an object needs a library of this name
  bool open_mpi = false;  ///< one of these objects imports objects of Open MPI
};

/// The dynamic section of a loaded object. Addresses in it are relocated, except in objects of the kernel.
class Section {
 public:
  Section(const dl_phdr_info& object, const ElfW(Dyn) * entries)
      : base_(object.dlpi_addr), entries_(entries) {}
  [[nodiscard]] ElfW(Xword) value(ElfW(Sxword) tag) const {
    for (const ElfW(Dyn)* entry = entries_; entry->d_tag != DT_NULL; ++entry)
      if (entry->d_tag == tag) return entry->d_un.d_val;
    return 0;
  }
  template <class T>
  [[nodiscard]] const T* address(ElfW(Sxword) tag) const {
    const ElfW(Addr) found = value(tag);
    return reinterpret_cast<const T*>(found == 0 || found >= base_ ? found : base_ + found);
  }
  [[nodiscard]] bool needs(std::string_view library) const {
    for (const ElfW(Dyn)* entry = entries_; entry->d_tag != DT_NULL; ++entry)
      if (entry->d_tag == DT_NEEDED && address<char>(DT_STRTAB) + entry->d_un.d_val == library) return true;
    return false;
  }
  /// Returns whether a relocation refers to an object or function inside of Open MPI.
  [[nodiscard]] bool imports_open_mpi() const {
    return refers(address<ElfW(Rela)>(DT_RELA), value(DT_RELASZ)) ||
           refers(address<ElfW(Rela)>(DT_JMPREL), value(DT_PLTRELSZ));
  }

 private:
  [[nodiscard]] bool refers(const ElfW(Rela) * relocations, size_t bytes) const {
    const auto* symbols = address<ElfW(Sym)>(DT_SYMTAB);
    const auto* names = address<char>(DT_STRTAB);
    for (size_t i = 0; relocations != nullptr && i < bytes / sizeof *relocations; ++i) {
      const size_t symbol = ELF64_R_SYM(relocations[i].r_info);
      if (symbol == 0) continue;
      const std::string_view name = names + symbols[symbol].st_name;
      if (name.starts_with("ompi_") || name.starts_with("OMPI_")) return true;
    }
    return false;
  }

  ElfW(Addr) base_;
  const ElfW(Dyn) * entries_;
};

int examine(dl_phdr_info* object, size_t /*size*/, void* result) {
  auto& found = *static_cast<Importers*>(result);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    if (object->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const Section section(
        *object, reinterpret_cast<const ElfW(Dyn)*>(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr));
    if (!section.needs("libmpi.so")) continue;
    found.any = true;
    found.open_mpi |= section.imports_open_mpi();
  }
  return 0;
}

/// Returns the name of the library with the interface of the program. Programs that open this library
/// with dlopen find objects of Open MPI in it.
const char* choose() {
  Importers found;
  ::dl_iterate_phdr(examine, &found);
  return found.any && !found.open_mpi ? "/libmpi.so.12" : "/libmpi.so.40";
}

__attribute__((constructor)) void open_library() {
  const std::string folder = folder_of(weft_compat_targets);
  if (folder.empty()) fail("its own path is unknown");
  void* library = ::dlopen((folder + choose()).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) fail(::dlerror());
  for (size_t i = 0; i < kCount; ++i) {
    void* const function = ::dlsym(library, kNames[i]);
    weft_compat_targets[i] =
        function != nullptr ? api::inner_entry(function) : reinterpret_cast<void*>(missing);
  }
  const auto copy = [&](void*& variable, const char* name) {
    if (void* const* const value = static_cast<void**>(::dlsym(library, name))) variable = *value;
  };
  copy(weft_compat_data_MPI_F_STATUS_IGNORE, "MPI_F_STATUS_IGNORE");
  copy(weft_compat_data_MPI_F_STATUSES_IGNORE, "MPI_F_STATUSES_IGNORE");
  copy(weft_compat_data_MPI_F08_STATUS_IGNORE, "MPI_F08_STATUS_IGNORE");
  copy(weft_compat_data_MPI_F08_STATUSES_IGNORE, "MPI_F08_STATUSES_IGNORE");
}

}  // namespace

}  // namespace weft::compat
