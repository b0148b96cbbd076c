// SPDX-License-Identifier: BSD-3-Clause
#include "launch/pmix/spawn.hpp"

#include <unistd.h>

#include <cstring>
#include <sstream>
#include <utility>

#include "launch/spawn_info.hpp"

namespace weft::launch::pmix {
namespace {

// Processes beyond the free slots share cores, as under Weft's mpiexec.
constexpr const char* kDefaultMapping = "slot:OVERSUBSCRIBE";

/// The command in the first of the folders that has it; the launcher looks for others.
std::string locate(const std::string& command, const std::string* folders) {
  if (folders == nullptr || command.find('/') != std::string::npos) return command;
  std::istringstream list(*folders);
  for (std::string folder; std::getline(list, folder, ':');)
    if (const std::string path = folder + "/" + command; ::access(path.c_str(), X_OK) == 0) return path;
  return command;
}

}  // namespace

Info string_info(const char* key, const std::string& value) {
  Info info{};
  std::strncpy(info.key, key, sizeof info.key - 1);
  info.value.type = Type::string;
  info.value.data.string = const_cast<char*>(value.c_str());
  return info;
}

char** SpawnApps::keep_list(const std::vector<std::string>& texts) {
  std::vector<char*>& list = lists_.emplace_back();
  for (const std::string& text : texts) list.push_back(keep(text));
  list.push_back(nullptr);
  return list.data();
}

Status SpawnApps::add(const SpawnProgram& program, const SpawnRequest& request) {
  std::vector<std::string> variables{std::string(kParentVariable) + "=" + request.parent_value};
  if (const std::string* handler = value_of(program.info, {"mpi_initial_errhandler"}))
    variables.push_back("WEFT_ERRORS_INITIAL=" + *handler);
  auto given = variables_of(program.info);
  if (!given) return std::move(given).error();
  for (const auto& [name, value] : *given) variables.push_back(name + "=" + value);
  const std::string command = locate(program.command, value_of(program.info, {"path"}));
  std::vector<std::string> arguments{command};
  arguments.insert(arguments.end(), program.arguments.begin(), program.arguments.end());
  std::vector<Info>& infos = infos_.emplace_back();
  if (const std::string* hosts = value_of(program.info, {"host"}))
    infos.push_back(string_info("pmix.host", texts_.emplace_back(*hosts)));
  App& app = apps_.emplace_back();
  app.command = keep(command);
  app.arguments = keep_list(arguments);
  app.environment = keep_list(variables);
  app.directory = keep(directory_of(program.info, request.directory));
  app.processes = program.processes;
  app.infos = infos.data();
  app.info_count = infos.size();
  return {};
}

Result<SpawnApps> SpawnApps::create(const SpawnRequest& request) {
  SpawnApps made;
  const std::string *mapping = nullptr, *binding = nullptr;
  for (const SpawnProgram& program : request.programs) {
    WEFT_TRY(made.add(program, request));
    if (const std::string* value = value_of(program.info, {"map_by"})) mapping = value;
    if (const std::string* value = value_of(program.info, {"bind_to"})) binding = value;
  }
  made.job_.push_back(
      string_info("pmix.mapby", made.texts_.emplace_back(mapping != nullptr ? *mapping : kDefaultMapping)));
  if (binding != nullptr) made.job_.push_back(string_info("pmix.bindto", made.texts_.emplace_back(*binding)));
  return made;
}

}  // namespace weft::launch::pmix
