#include "ddp/environment.h"

#include "ddp/errors.h"

#include <gtest/gtest.h>

#include <map>

namespace lockstep {
namespace {

using Variables = std::map<std::string, std::string>;

EnvironmentLookup lookup_in(const Variables& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

const Variables kWhole = {
    {"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "::1"}, {"MASTER_PORT", "29500"}};

void read_all(const Variables& variables) {
  standing_from_environment(lookup_in(variables));
  meeting_point_from_environment(lookup_in(variables));
}

void expect_complaint(const Variables& variables, const std::vector<std::string>& parts) {
  try {
    read_all(variables);
    ADD_FAILURE() << "no complaint about " << parts.front();
  } catch (const UsageError& error) {
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << error.what() << "\nlacks: " << part;
    }
  }
}

TEST(Environment, IsReadWhole) {
  const Standing standing = standing_from_environment(lookup_in(kWhole));
  EXPECT_EQ(standing.rank, 1);
  EXPECT_EQ(standing.world_size, 3);
  const MeetingPoint point = meeting_point_from_environment(lookup_in(kWhole));
  EXPECT_EQ(point.address, "::1");
  EXPECT_EQ(point.port, 29500);
  EXPECT_FALSE(point.agent_runs_store);
  EXPECT_EQ(point.attempt, 0);
}

TEST(Environment, HalfSetNamesWhatIsMissing) {
  for (const auto& [name, value] : kWhole) {
    Variables variables = kWhole;
    variables.erase(name);
    expect_complaint(variables, {"variable " + name + " is not set"});
    variables[name] = "";
    expect_complaint(variables, {"variable " + name + " is empty"});
  }
  expect_complaint({}, {"RANK is not set"});
}

TEST(Environment, MalformedNamesTheVariableAndTheValue) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> bad = {
      {"RANK", {"two", "-1", "3", "1 ", " 1", "1.0", "0x1", "99999999999"}},
      {"WORLD_SIZE", {"0", "-2", "three", "1e3"}},
      {"MASTER_PORT", {"0", "65536", "http", "-1"}}};
  for (const auto& [name, values] : bad) {
    for (const std::string& value : values) {
      Variables variables = kWhole;
      variables[name] = value;
      expect_complaint(variables, {name, "'" + value + "'", "expected a whole number"});
    }
  }
}

TEST(Environment, KnowsTorchrunsAgent) {
  Variables variables = kWhole;
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  variables["TORCHELASTIC_RESTART_COUNT"] = "2";
  const MeetingPoint point = meeting_point_from_environment(lookup_in(variables));
  EXPECT_TRUE(point.agent_runs_store);
  EXPECT_EQ(point.attempt, 2);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_FALSE(meeting_point_from_environment(lookup_in(variables)).agent_runs_store);
}

}  // namespace
}  // namespace lockstep
