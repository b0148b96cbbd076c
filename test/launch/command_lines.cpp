// SPDX-License-Identifier: BSD-3-Clause
// Command lines of the manuals of other MPIs are parsed as command_lines.txt says.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "mpiexec/labels.hpp"
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
  if (const GpuBinding gpus = gpu_binding(options); gpus.kind != GpuBind::unset) text += " gpus=" + gpus.text;
  if (options.input_rank != 0) text += " stdin=" + std::to_string(options.input_rank);
  if (options.merge_output) text += " merge";
  if (!options.output_file.empty()) text += " out=" + options.output_file;
  if (!options.error_file.empty()) text += " err=" + options.error_file;
  if (options.copy_output) text += " copy";
  if (options.gdb) text += " gdb";
  if (const std::string label = label_pattern(options); !label.empty()) text += " label='" + label + "'";
  if (options.report_bindings) text += " report";
  if (options.do_not_launch) text += " placed only";
  if (options.launcher != Launcher::automatic)
    text += " launcher=" + std::to_string(static_cast<int>(options.launcher));
  if (options.timeout > 0) text += " timeout=" + std::to_string(static_cast<int>(options.timeout));
  if (options.version) text += " version";
  if (options.oversubscribe) text += " oversubscribe";
  if (options.continue_on_failure) text += " continue";
  if (options.mps) text += " mps";
  if (!options.warnings.empty()) text += " notes=" + std::to_string(options.warnings.size());
  return text;
}

/// Parses the lines of a file: command => description, or => ! and a part of the error text. Returns their
/// number.
int check_lines(const char* path) {
  ::setenv("WEFT_FAKE_HOSTS", "2", 1);
  ::setenv("LD_LIBRARY_PATH", "/lib", 1);
  std::ifstream file(path);
  int lines = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    ++lines;
    const size_t arrow = line.find(" => ");
    if (arrow == line.npos) {
      ADD_FAILURE() << line;
      continue;
    }
    const std::string expected = line.substr(arrow + 4);
    std::stringstream stream(line.substr(0, arrow));
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    const bool rsh = words[0] == "mpirun_rsh";
    words.erase(words.begin());
    auto translated = rsh ? arguments_of_mpirun_rsh(words) : Result<std::vector<std::string>>(words);
    auto options = translated ? parse_options(*translated) : std::move(translated).error();
    const std::string got = options ? describe(*options) : "! " + options.error().message();
    if (expected.starts_with("! "))
      EXPECT_TRUE(got.starts_with("! ") && got.find(expected.substr(2)) != got.npos) << line << "\n  " << got;
    else
      EXPECT_EQ(got, expected) << line;
  }
  ::unsetenv("WEFT_FAKE_HOSTS");
  return lines;
}

TEST(CommandLines, OfManuals) { EXPECT_GE(check_lines(COMMAND_LINES), 195); }
TEST(CommandLines, OfRandomOptions) { EXPECT_EQ(check_lines(RANDOM_COMMAND_LINES), 220); }

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
  const auto parse = [&](const std::string& text, std::vector<std::string> options) {
    std::ofstream(path) << text;
    options.push_back(path);
    auto parsed = parse_options(options);
    return parsed ? describe(*parsed) : "! " + parsed.error().message();
  };
  for (const char* option : {"-configfile", "--app"}) {
    EXPECT_EQ(parse("# a job\n-n 2 -env A 'b c' ./first\n-n 3 ./second x\n", {option}),
              "2 A=b c ./first : 3 ./second x");
    EXPECT_EQ(parse("-n 2 \\\n  -env A=1 \\\r\n ./first\r\n # remark \\\n-n 3 ./second \\",
                    {"-x-all", "B=2", option}),
              "2 B=2 A=1 ./first : 3 B=2 ./second");
    EXPECT_EQ(parse("-n 1 ./p 'a : b' \":\"\n-n 2 ./p \"\" --app x\n", {option}),
              "1 ./p a : b : : 2 ./p  --app x");
    EXPECT_EQ(parse("-n 1 ./p a :\n: -n 2 ./q\n:\n", {option}), "1 ./p a : 2 ./q");
    EXPECT_EQ(parse("-n 1 ./p : -n 2 ./q\n-n 3 ./r", {option}), "1 ./p : -n 2 ./q : 3 ./r notes=1");
    EXPECT_NE(parse("-n 1 ./p 'a\n", {option}).find("has no end"), std::string::npos);
    EXPECT_NE(parse("-configfile x\n", {option}).find("itself"), std::string::npos);
  }
  auto options = parse_options({"-n", "1", "./a", ":", "-configfile=" + path});
  EXPECT_FALSE(options);  // the file names a file
  ::unlink(path.c_str());
  EXPECT_FALSE(parse_options({"-configfile", path}));
}

TEST(Labels, HaveTheFormsOfLaunchers) {
  Options options;
  const auto label = [&](Labels labels, bool is_error) {
    options.labels = labels;
    return label_text(label_pattern(options), {3, 1, is_error}, "job");
  };
  EXPECT_EQ(label(Labels::hydra, true), "[3] ");
  EXPECT_EQ(label(Labels::tag, false), "[1,3]<stdout>: ");
  EXPECT_EQ(label(Labels::full_tag, true), "[job@1,3]<stderr>: ");
  EXPECT_EQ(label(Labels::rank, true), "[3]<stderr>: ");
  EXPECT_EQ(label(Labels::gforker, false) + label(Labels::gforker, true), "3>3(err)>");
  EXPECT_EQ(label(Labels::slurm, false), "3: ");
  EXPECT_TRUE(label(Labels::pals, false).ends_with(" 3: "));
  EXPECT_TRUE(set_label_pattern(options, "-prepend-pattern", "%r %% %g|").ok());
  EXPECT_EQ(label(Labels::pattern, false), "3 % 0|");
}

}  // namespace
}  // namespace weft::mpiexec
