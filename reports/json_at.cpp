#include "reports/json_at.h"

#include "harness/base/characters.h"
#include "harness/base/text.h"

#include <cmath>

namespace lockstep::reports {

namespace {

constexpr double kSecondsMost = 1e12;

}  // namespace

At At::operator[](const std::string& name) const {
  if (!object().contains(name)) wrong("the field '" + name + "' is missing");
  return {json_[name], path_of(name)};
}

bool At::has(const std::string& name) const {
  return json_.is_object() && json_.contains(name);
}

std::vector<At> At::elements() const {
  if (!json_.is_array()) expected("a list");
  std::vector<At> all;
  for (size_t i = 0; i < json_.size(); ++i)
    all.push_back({json_[i], path_ + "[" + std::to_string(i) + "]"});
  return all;
}

std::vector<std::pair<std::string, At>> At::fields() const {
  std::vector<std::pair<std::string, At>> all;
  for (const auto& [name, value] : object().items())
    all.emplace_back(name, At(value, path_of(one_line(name))));
  return all;
}

const Json& At::object() const {
  if (!json_.is_object()) expected("an object");
  return json_;
}

std::string At::text() const {
  if (!json_.is_string()) expected("a string");
  return json_.get<std::string>();
}

std::string At::line() const {
  auto line = text();
  if (!is_one_line(line)) expected("a string of one line");
  return line;
}

bool At::truth() const {
  if (!json_.is_boolean()) expected("true or false");
  return json_.get<bool>();
}

double At::share() const {
  if (!json_.is_number() || !(json_.get<double>() >= 0 && json_.get<double>() <= 1))
    expected("a number from 0 to 1");
  return json_.get<double>();
}

double At::real() const {
  if (!json_.is_number()) expected("a number");
  return json_.get<double>();
}

int64_t At::whole(int64_t least, int64_t most) const {
  const bool fits =
      json_.is_number_integer() &&
      !(json_.is_number_unsigned() &&
        json_.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) &&
      json_.get<int64_t>() >= least && json_.get<int64_t>() <= most;
  if (!fits)
    expected("a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return json_.get<int64_t>();
}

int At::number(int64_t least, int64_t most) const {
  return static_cast<int>(whole(least, most));
}

std::chrono::milliseconds At::time() const {
  if (!json_.is_number() || !(json_.get<double>() >= 0 && json_.get<double>() <= kSecondsMost))
    expected("seconds");
  return std::chrono::milliseconds(std::llround(json_.get<double>() * 1000));
}

std::string At::path_of(const std::string& name) const {
  return path_ + (path_.ends_with(":") ? " " : ".") + name;
}

void At::expected(const std::string& what) const {
  wrong("expected " + what + ", found " +
        excerpt(json_.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

void At::wrong(const std::string& why) const {
  throw FieldError(path_ + (path_.ends_with(":") ? " " : ": ") + why);
}

}  // namespace lockstep::reports
