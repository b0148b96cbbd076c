// SPDX-License-Identifier: BSD-3-Clause
// Copies of UCX: where they are found, and which one fits a host.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "transport/ucx/candidates.hpp"

namespace weft::transport::ucx {
namespace {

namespace fs = std::filesystem;

class Candidates : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "ucx-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root = fs::absolute(name);
  }
  void TearDown() override { fs::remove_all(root); }

  /// Creates a copy of UCX with modules in a folder below root.
  std::string copy(const std::string& folder, std::initializer_list<const char*> modules = {}) {
    fs::create_directories(root / folder / "ucx");
    std::ofstream(root / folder / kLibraryName) << "";
    for (const char* module : modules) std::ofstream(root / folder / "ucx" / module) << "";
    return root / folder / kLibraryName;
  }
  void file(const std::string& path) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << "";
  }
  std::vector<std::string> found(const SearchPlaces& places) {
    std::vector<std::string> paths;
    for (const Candidate& one : find_candidates(places)) paths.push_back(one.path);
    return paths;
  }

  fs::path root;
};

TEST_F(Candidates, OfTheEnvironmentOfTheLibrary) {
  const std::string package = copy("env/lib/python3.11/site-packages/libucx/lib", {"libuct_cuda.so.0"});
  SearchPlaces places;
  places.library_folder = root / "env/lib/weft/lib";  // of a wheel
  const auto all = find_candidates(places);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].path, package);
  EXPECT_TRUE(all[0].cuda);
  EXPECT_FALSE(all[0].infiniband);
  EXPECT_EQ(all[0].text(), package + ", of the Python environment, with CUDA, without InfiniBand");
  places.library_folder = root / "env/lib/python3.11/site-packages/weft_mpi";  // beside the package
  EXPECT_EQ(found(places), std::vector<std::string>{package});
  places.library_folder = root / "elsewhere/lib";
  EXPECT_TRUE(found(places).empty());
}

TEST_F(Candidates, OfTheEnvironmentOfTheProgram) {
  const std::string package = copy("env/lib/python3.12/site-packages/libucx/lib");
  SearchPlaces places;
  places.program = root / "env/bin/python";
  EXPECT_TRUE(found(places).empty());  // bin/ of no environment
  file("env/pyvenv.cfg");
  EXPECT_EQ(found(places), std::vector<std::string>{package});
  places.program.clear();
  places.environments[0] = root / "env";
  EXPECT_EQ(found(places), std::vector<std::string>{package});
}

TEST_F(Candidates, OfConda) {
  const std::string library = copy("conda/lib");
  SearchPlaces places;
  places.environments[1] = root / "conda";
  EXPECT_TRUE(found(places).empty());
  file("conda/conda-meta/history");
  EXPECT_EQ(found(places), std::vector<std::string>{library});
}

TEST_F(Candidates, TheLinkersComesFirstAndNoneTwice) {
  const std::string site = copy("site"), package = copy("env/lib/python3.9/site-packages/libucx/lib");
  SearchPlaces places;
  places.library_path =
      (root / "none").string() + ":" + (root / "site").string() + "::" + (root / "env").string();
  places.environments[0] = root / "env";
  places.library_folder = root / "env/lib/weft/lib";
  EXPECT_EQ(found(places), (std::vector<std::string>{site, package}));
  const std::string of_hosts = copy("launcher/lib");
  places.launcher_folder = root / "launcher";
  EXPECT_EQ(found(places), (std::vector<std::string>{site, package, of_hosts}));
  places.launcher_folder.clear();
  fs::create_symlink(root / "site", root / "alias");
  places.library_path = (root / "alias").string();
  EXPECT_EQ(found(places).front(), root / "alias" / kLibraryName);
}

TEST_F(Candidates, ThoseOfTheLinkersCache) {
  struct Header {
    char magic[20];
    uint32_t libraries, string_bytes, unused[5];
  } header{};
  struct Entry {
    int32_t flags;
    uint32_t name, path, version;
    uint64_t capabilities;
  } entries[2]{};
  const std::string library = copy("usr/lib"), name = kLibraryName;
  const std::string texts =
      name + std::string(1, 0) + "/lib32/" + name + std::string(1, 0) + library + std::string(1, 0);
  std::copy_n("glibc-ld.so.cache1.1", sizeof header.magic, header.magic);
  header.libraries = 2;
  header.string_bytes = static_cast<uint32_t>(texts.size());
  const auto start = static_cast<uint32_t>(sizeof header + sizeof entries);
  const auto other = static_cast<uint32_t>(name.size() + 1);
#if defined(__aarch64__)
  constexpr int32_t kFlags = 0x0a03;
#else
  constexpr int32_t kFlags = 0x0303;
#endif
  entries[0] = {0x0003, start, start + other, 0, 0};  // of another architecture
  entries[1] = {kFlags, start, start + other + other + 7, 0, 0};
  const auto write = [&](const std::string& before, size_t bytes) {
    std::string text(reinterpret_cast<const char*>(&header), sizeof header);
    text.append(reinterpret_cast<const char*>(entries), sizeof entries).append(texts);
    std::ofstream(root / "cache", std::ios::binary) << before << text.substr(0, bytes);
    return (root / "cache").string();
  };
  for (const std::string before : {"", "ld.so-1.7.0 and an older table"})
    EXPECT_EQ(find_in_linker_cache(write(before, std::string::npos), name), library);
  SearchPlaces places;
  places.linker_cache = root / "cache";
  EXPECT_EQ(found(places), std::vector<std::string>{library});
  // Damaged files are no reason to read beyond their end.
  for (size_t bytes = 0; bytes < sizeof header + sizeof entries; ++bytes)
    EXPECT_EQ(find_in_linker_cache(write("", bytes), name), "") << bytes;
  header.libraries = 0xffffffff;
  EXPECT_EQ(find_in_linker_cache(write("", std::string::npos), name), "");
  EXPECT_EQ(find_in_linker_cache(root / "absent", name), "");
}

TEST(RankOfCandidates, ByTheHardwareOfTheHost) {
  const Candidate plain{"/plain", "a", false, false}, fast{"/fast", "b", false, true},
      gpu{"/gpu", "c", true, false};
  const auto first = [](std::vector<Candidate> all, Hardware hardware, std::string* why = nullptr) {
    const std::string reason = rank(all, hardware);
    if (why != nullptr) *why = reason;
    return all.front().path;
  };
  std::string why;
  EXPECT_EQ(first({plain, fast, gpu}, {false, false}, &why), "/plain");
  EXPECT_EQ(why, "");
  EXPECT_EQ(first({plain, fast, gpu}, {true, false}, &why), "/gpu");
  EXPECT_EQ(why, "for its CUDA module, which /plain lacks");
  EXPECT_EQ(first({plain, gpu, fast}, {true, true}, &why), "/fast");  // GPU memory can be staged
  EXPECT_EQ(why, "for its InfiniBand module, which /plain lacks");
  EXPECT_EQ(first({gpu, plain}, {true, false}, &why), "/gpu");
  EXPECT_EQ(why, "");
  std::vector<Candidate> none;
  EXPECT_EQ(rank(none, {true, true}), "");
}

}  // namespace
}  // namespace weft::transport::ucx
