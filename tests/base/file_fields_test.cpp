// The field lists of files: structs that are described apart, and values in other forms.
#include "harness/base/forms.h"
#include "harness/base/table_fields.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

struct PlaceInFile {
  std::string name = "a";
  int step = 1;
};
struct FoundInFile {
  PlaceInFile place;
  std::chrono::milliseconds took{};
  std::vector<std::optional<double>> numbers;
  std::optional<int> rank;
  std::string note;
  double share = 0;
  Details details;
  int64_t twice() const { return 2 * place.step; }
};

}  // namespace

template <>
struct FieldsOf<PlaceInFile> {
  static constexpr auto fields() {
    return std::tuple{line("name", &PlaceInFile::name), field("step", &PlaceInFile::step),
                      derived("next", [](const PlaceInFile& place) { return place.step + 1; })};
  }
};

template <>
struct FieldsOf<FoundInFile> {
  static constexpr auto fields() {
    return std::tuple{spliced(&FoundInFile::place),
                      seconds("seconds", &FoundInFile::took),
                      field("numbers", &FoundInFile::numbers),
                      field("rank", &FoundInFile::rank, at_least(0)),
                      unless_default(line("note", &FoundInFile::note)),
                      field("share", &FoundInFile::share, between(0, 1)),
                      field("details", &FoundInFile::details),
                      derived("twice", &FoundInFile::twice)};
  }
  static std::string finish(FoundInFile& found) {
    if (!found.rank) found.rank = 7;
    return found.place.name == found.note ? "'note' is 'name' again" : "";
  }
};

namespace {

FoundInFile some_found() {
  return {.place = {"b\n", 3},
          .took = std::chrono::milliseconds(1250),
          .numbers = {0.5, {}},
          .share = 0.25,
          .details = {"so", Cause{"why"}, Table{.heading_of_remarks = "more"}}};
}

constexpr auto kFoundWritten =
    R"({"name":"b\\x0a","step":3,"seconds":1.25,"numbers":[0.5,null],"share":0.25,)"
    R"("details":["so",{"cause":"why"},{"columns":[],"rows":[],"heading_of_remarks":"more"}],)"
    R"("next":4,"twice":6})";

FoundInFile read_found(const Json& json) {
  return from_json<FoundInFile>(json, "file", Reading::whole_and_more);
}

std::string file_refusal(const char* name, const Json& value) {
  auto json = Json::parse(kFoundWritten);
  json[name] = value;
  try {
    read_found(json);
  } catch (const FieldError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(FileFields, AValueIsWrittenInItsFormsWithWhatFollowsFromIt) {
  EXPECT_EQ(to_json(some_found()).dump(), kFoundWritten);
}

TEST(FileFields, WhatIsWrittenIsRead) {
  const auto found = read_found(Json::parse(kFoundWritten));
  EXPECT_EQ(found.place.name, "b\\x0a");
  EXPECT_EQ(found.took, some_found().took);
  EXPECT_EQ(found.numbers, some_found().numbers);
  EXPECT_EQ(found.details, some_found().details);
  EXPECT_EQ(found.rank, 7) << "finish fills it in";
}

TEST(FileFields, ADerivedValueAndAnUnknownOneAreNotRead) {
  EXPECT_EQ(file_refusal("next", "?"), "accepted");
  EXPECT_EQ(file_refusal("twice", 5), "accepted");
  EXPECT_EQ(file_refusal("news", 1), "accepted");
  EXPECT_THROW(from_json<FoundInFile>(Json::parse(kFoundWritten), "file", Reading::whole),
               UnknownField);
}

TEST(FileFields, OnlyAFieldThatIsLeftOutByDefaultMayBeMissing) {
  for (const auto* name : {"name", "step", "seconds", "numbers", "share", "details"}) {
    auto json = Json::parse(kFoundWritten);
    json.erase(name);
    EXPECT_THROW(read_found(json), FieldError) << name;
  }
  EXPECT_EQ(file_refusal("note", ""), "accepted");
}

TEST(FileFields, EveryRefusalNamesItsPathAndWhatIsAllowed) {
  EXPECT_EQ(file_refusal("name", "\n"),
            "file.name: expected one line without control characters, found \"\\n\"");
  EXPECT_EQ(file_refusal("seconds", -0.5), "file.seconds: -0.5 is too small; the least is 0");
  EXPECT_EQ(file_refusal("seconds", "1"), "file.seconds: expected a number, found \"1\"");
  EXPECT_EQ(file_refusal("share", 1.5), "file.share: 1.5 is too large; the most is 1");
  EXPECT_EQ(file_refusal("numbers", {true}), "file.numbers[0]: expected a number, found true");
  EXPECT_EQ(file_refusal("rank", Json()), "file.rank: expected a whole number, found null");
  EXPECT_EQ(file_refusal("details", {1}),
            "file.details[0]: expected an object with columns, rows, heading_of_remarks, found 1");
  EXPECT_EQ(file_refusal("details", {{{"cause", 1}}}),
            "file.details[0].cause: expected a string, found 1");
  EXPECT_EQ(file_refusal("note", "b\\x0a"), "file: 'note' is 'name' again");
}

}  // namespace
}  // namespace lockstep
