// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/elf.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace weft::mpiexec {

namespace {

/// A read-only mapping of a whole file.
class File {
 public:
  explicit File(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    struct stat status {};
    if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
      void* address = ::mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
      if (address != MAP_FAILED) {
        data_ = static_cast<const char*>(address);
        size_ = static_cast<size_t>(status.st_size);
      }
    }
    ::close(fd);
  }
  ~File() {
    if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// Returns the object at an offset; nullptr if outside the file or misaligned.
  template <class T>
  [[nodiscard]] const T* at(size_t offset) const {
    if (offset > size_ || size_ - offset < sizeof(T) || offset % alignof(T) != 0) return nullptr;
    return reinterpret_cast<const T*>(data_ + offset);
  }
  /// Returns the string at an offset; "" if unterminated inside the file.
  [[nodiscard]] const char* text(size_t offset) const {
    return offset < size_ && std::memchr(data_ + offset, 0, size_ - offset) ? data_ + offset : "";
  }

 private:
  const char* data_ = nullptr;
  size_t size_ = 0;
};

/// Returns the file offset of a virtual address; 0 if no segment contains it.
size_t file_offset(const File& file, const ElfW(Ehdr) & header, ElfW(Addr) address) {
  for (size_t i = 0; i < header.e_phnum; ++i) {
    const auto* segment = file.at<ElfW(Phdr)>(header.e_phoff + i * sizeof(ElfW(Phdr)));
    if (segment && segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
        address - segment->p_vaddr < segment->p_filesz)
      return segment->p_offset + (address - segment->p_vaddr);
  }
  return 0;
}

const ElfW(Phdr) * find_dynamic(const File& file, const ElfW(Ehdr) & header) {
  for (size_t i = 0; i < header.e_phnum; ++i) {
    const auto* segment = file.at<ElfW(Phdr)>(header.e_phoff + i * sizeof(ElfW(Phdr)));
    if (segment && segment->p_type == PT_DYNAMIC) return segment;
  }
  return nullptr;
}

/// Returns the header of an ELF file of this word size; nullptr for other files.
const ElfW(Ehdr) * find_header(const File& file) {
  const auto* header = file.at<ElfW(Ehdr)>(0);
  constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  const bool valid = header && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
                     header->e_ident[EI_CLASS] == kClass && header->e_phentsize == sizeof(ElfW(Phdr));
  return valid ? header : nullptr;
}

}  // namespace

Symbols read_symbols(const std::string& path) {
  const File file(path);
  const auto* header = find_header(file);
  Symbols found;
  if (!header || header->e_shentsize != sizeof(ElfW(Shdr))) return found;
  const auto section = [&](size_t i) {
    return i < header->e_shnum ? file.at<ElfW(Shdr)>(header->e_shoff + i * sizeof(ElfW(Shdr))) : nullptr;
  };
  for (size_t i = 0; i < header->e_shnum; ++i) {
    const auto* table = section(i);
    if (!table || table->sh_type != SHT_DYNSYM) continue;
    const auto* strings = section(table->sh_link);
    for (size_t at = 0; strings && at + sizeof(ElfW(Sym)) <= table->sh_size; at += sizeof(ElfW(Sym))) {
      const auto* symbol = file.at<ElfW(Sym)>(table->sh_offset + at);
      if (!symbol) break;
      const char* name = file.text(strings->sh_offset + symbol->st_name);
      if (symbol->st_shndx != SHN_UNDEF)
        found.exported.emplace_back(name);
      else if (ELF64_ST_BIND(symbol->st_info) != STB_WEAK)  // the same in both classes
        found.imported.emplace_back(name);
    }
  }
  return found;
}

Dynamic read_dynamic(const std::string& path) {
  const File file(path);
  const auto* header = find_header(file);
  Dynamic found;
  if (!header) return found;
  const auto* dynamic = find_dynamic(file, *header);
  if (!dynamic) return found;
  const auto entry = [&](size_t i) { return file.at<ElfW(Dyn)>(dynamic->p_offset + i * sizeof(ElfW(Dyn))); };
  const size_t entries = dynamic->p_filesz / sizeof(ElfW(Dyn));
  size_t strings = 0;
  for (size_t i = 0; i < entries && entry(i) && entry(i)->d_tag != DT_NULL; ++i)
    if (entry(i)->d_tag == DT_STRTAB) strings = file_offset(file, *header, entry(i)->d_un.d_ptr);
  if (strings == 0) return found;
  for (size_t i = 0; i < entries && entry(i) && entry(i)->d_tag != DT_NULL; ++i) {
    const auto tag = entry(i)->d_tag;
    found.rpath |= tag == DT_RPATH;
    found.runpath |= tag == DT_RUNPATH;
    if (tag == DT_NEEDED) found.needed.emplace_back(file.text(strings + entry(i)->d_un.d_val));
  }
  return found;
}

bool has_overriding_rpath(const std::string& path, const std::string& library) {
  const Dynamic found = read_dynamic(path);
  const bool needed = std::find(found.needed.begin(), found.needed.end(), library) != found.needed.end();
  return needed && found.rpath && !found.runpath;
}

}  // namespace weft::mpiexec
