// SPDX-License-Identifier: BSD-3-Clause
// Command lines of the manuals of other MPIs are parsed as command_lines.txt says.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "mpiexec/options.hpp"
#include "mpiexec/other_options.hpp"
#include "mpiexec/topology.hpp"

namespace weft::mpiexec {
namespace {

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

const char* name_of(BindTo bind_to) {
  constexpr const char* kNames[] = {"share", "core", "package", "numa", "l3cache", "none"};
  return kNames[static_cast<int>(bind_to)];
}
const char* name_of(MapBy map_by) {
  constexpr const char* kNames[] = {"slot", "core", "gpu", "package", "numa", "l3cache", "node"};
  return kNames[static_cast<int>(map_by)];
}

/// "2 ./a b", then what differs from the defaults.
std::string describe(const Options& options) {
  std::string text;
  for (const Program& program : options.programs) {
    text += (text.empty() ? "" : " : ") + std::to_string(program.ranks);
    for (const auto& [name, value] : program.variables) text += " " + name + "=" + value;
    if (!program.directory.empty()) text += " in " + program.directory;
    text += " " + join(program.argv);
  }
  if (options.bind_to != BindTo::share) text += " bind=" + std::string(name_of(options.bind_to));
  if (options.map_by != MapBy::slot) text += " map=" + std::string(name_of(options.map_by));
  if (options.per_object > 0) text += " each=" + std::to_string(options.per_object);
  if (options.cores_per_rank > 0) text += " cores=" + std::to_string(options.cores_per_rank);
  for (const Host& host : options.hosts) text += " @" + host.name + ":" + std::to_string(host.slots);
  constexpr const char* kRanking[] = {"mapping", "fill", "package", "numa", "l3cache"};
  if (options.rank_by != RankBy::mapping)
    text += " rank=" + std::string(kRanking[static_cast<int>(options.rank_by)]);
  if (options.hardware_threads) text += " threads";
  if (!options.cpus.empty()) text += " cpus=" + format_cpu_list(options.cpus);
  if (!options.rankfile.empty()) text += " rankfile=" + options.rankfile;
  if (options.input_rank != 0) text += " stdin=" + std::to_string(options.input_rank);
  if (options.merge_output) text += " merge";
  if (options.timestamp_output) text += " time";
  if (!options.output_file.empty()) text += " out=" + options.output_file;
  if (!options.error_file.empty()) text += " err=" + options.error_file;
  if (options.copy_output) text += " copy";
  if (options.gdb) text += " gdb";
  if (options.tag_output) text += " tag";
  if (options.report_bindings) text += " report";
  if (options.oversubscribe) text += " oversubscribe";
  if (options.continue_on_failure) text += " continue";
  if (!options.warnings.empty()) text += " notes=" + std::to_string(options.warnings.size());
  return text;
}

/// Each line: command => description, or => ! and a part of the error text.
TEST(CommandLines, OfManuals) {
  ::setenv("WEFT_FAKE_HOSTS", "2", 1);
  ::setenv("LD_LIBRARY_PATH", "/lib", 1);
  std::ifstream file(COMMAND_LINES);
  int lines = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t arrow = line.find(" => ");
    ASSERT_NE(arrow, line.npos) << line;
    const std::string expected = line.substr(arrow + 4);
    std::stringstream stream(line.substr(0, arrow));
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    const bool rsh = words[0] == "mpirun_rsh";
    words.erase(words.begin());
    if (rsh) {
      auto translated = arguments_of_mpirun_rsh(words);
      if (!translated) {
        EXPECT_NE(translated.error().message().find(expected.substr(2)), std::string::npos) << line;
        ++lines;
        continue;
      }
      words = *translated;
    }
    auto options = parse_options(words);
    const std::string got = options ? describe(*options) : "! " + options.error().message();
    if (expected.starts_with("! "))
      EXPECT_TRUE(got.starts_with("! ") && got.find(expected.substr(2)) != got.npos) << line << "\n  " << got;
    else
      EXPECT_EQ(got, expected) << line;
    ++lines;
  }
  ::unsetenv("WEFT_FAKE_HOSTS");
  EXPECT_GE(lines, 150);
}

TEST(CommandLines, OfTheEnvironment) {
  const char* variables[] = {"OMPI_MCA_pml=^ucx", "OMPI_MCA_mtl=ofi", "MV2_USE_CUDA=0", "OMPI_MCA_btl=self",
                             nullptr};
  EXPECT_EQ(join(options_from_environment(const_cast<char**>(variables))),
            "--x-all WEFT_NET=ofi --x-all WEFT_CUDA=off");
  const char* intel[] = {"I_MPI_PIN_DOMAIN=numa",
                         "I_MPI_PIN_PROCESSOR_LIST=0-3",
                         "I_MPI_PERHOST=all",
                         "PRTE_MCA_rmaps_default_mapping_policy=core",
                         "MV2_SHOW_CPU_BINDING=1",
                         "MPIEXEC_TIMEOUT=60",
                         nullptr};
  EXPECT_EQ(join(options_from_environment(const_cast<char**>(intel))),
            "--bind-to numa --cpu-list 0-3 --map-by core --report-bindings --timeout 60");
}

TEST(CommandLines, OfFiles) {
  const std::string path = ::testing::TempDir() + "/weft-configfile-" + std::to_string(::getpid());
  std::ofstream(path) << "# a job\n-n 2 -env A 'b c' ./first\n-n 3 ./second x\n";
  for (const char* option : {"-configfile", "--app"}) {
    auto options = parse_options({option, path});
    ASSERT_TRUE(options);
    EXPECT_EQ(describe(*options), "2 A=b c ./first : 3 ./second x");
  }
  ::unlink(path.c_str());
  EXPECT_FALSE(parse_options({"-configfile", path}));
}

}  // namespace
}  // namespace weft::mpiexec
