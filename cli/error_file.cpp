// Reads the file in which a rank reports why it failed, as torchrun's ranks do.
#include "cli/program_ranks.h"
#include "harness/core/parse_json.h"
#include "harness/core/read_file.h"

namespace lockstep::cli {

std::optional<std::string> error_told_in(const std::filesystem::path& file) {
  Json told;
  try {
    told = parse_json(read_file(file), file.string());
  } catch (const FieldError&) {
    return {};
  }
  if (!told.is_object() || !told.contains("message")) return {};
  const Json& message = told["message"];
  if (message.is_string()) return message.get<std::string>();
  if (!message.is_object() || !message.contains("message") || !message["message"].is_string())
    return {};
  return message["message"].get<std::string>();
}

}  // namespace lockstep::cli
